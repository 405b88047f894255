import type { NodeView } from "../../generated/api";
import { type Key, useT, useWord } from "../../i18n";
import { isolationOf } from "../../lib/isolation";
import { Card, Chip } from "../../ui/basics";
import { Icon } from "../../ui/Icon";

/** How far the node keeps foreign code apart: the level, what holds, and what is missing and why. */
export function Isolation({ node }: { node: NodeView }) {
  const t = useT();
  const word = useWord();
  const { level, layers, missing } = isolationOf(node.capabilities);
  if (!level) {
    return (
      <Card title={t("isolation.title")}>
        <p className="muted">{t("isolation.none")}</p>
      </Card>
    );
  }
  return (
    <Card title={t("isolation.title")} aside={<Chip tone="ok">{level}</Chip>}>
      <div className="stack tight">
        <p>{t(`isolation.${level}` as Key)}</p>
        <h3 className="muted">{t("isolation.holds")}</h3>
        <ul className="layers">
          {layers.map((layer) => (
            <li key={layer}>
              <span className="tone-ok">
                <Icon name="check" />
              </span>
              <span title={layer}>{word("layer", layer)}</span>
            </li>
          ))}
        </ul>
        <h3 className="muted">{t("isolation.missing")}</h3>
        {missing.length === 0 ? (
          <p className="muted">{t("isolation.complete")}</p>
        ) : (
          <ul className="layers">
            {missing.map(({ layer, why }) => (
              <li key={layer}>
                <span className="tone-warn">
                  <Icon name="close" />
                </span>
                <span title={layer}>
                  {word("layer", layer)}
                  <div className="muted small breaks">{why}</div>
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Card>
  );
}
