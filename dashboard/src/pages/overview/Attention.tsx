import type { Concern } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { Link } from "../../lib/router";
import { Coded } from "../../ui/basics";
import { Icon } from "../../ui/Icon";

const TONES: Record<string, string> = { high: "bad", medium: "warn", low: "quiet" };

/** Where something can be done about it. */
function placeOf({ subject }: Concern): string {
  const id = encodeURIComponent(subject.id ?? "");
  switch (subject.kind) {
    case "node":
      return `/nodes/${id}`;
    case "nodes":
      return "/nodes?sort=status";
    case "task":
      return `/tasks/${id}?tab=explain`;
    case "tasks":
      return "/tasks?status=pending";
    case "crawl":
      return `/crawls/${id}`;
    case "dead-letters":
      return "/dead-letters";
    default:
      return "/settings/master";
  }
}

function Words({ item }: { item: Concern }) {
  const { message, remedy } = useRetelling().concern(item);
  return (
    <>
      <div className="strong breaks">{message}</div>
      <div className="muted small breaks">
        <Coded text={remedy} />
      </div>
    </>
  );
}

export function Attention({ items }: { items: readonly Concern[] }) {
  const t = useT();
  const word = useWord();
  if (items.length === 0) {
    return (
      <p className="empty muted">
        <span className="row">
          <span className="tone-ok">
            <Icon name="check" />
          </span>
          {t("attention.nothing")}
        </span>
      </p>
    );
  }
  return (
    <ol className="attention">
      {items.slice(0, 8).map((item) => (
        <li key={`${item.kind} ${item.subject.id} ${item.message}`}>
          <span className={`tone-${TONES[item.severity] ?? "quiet"}`}>
            <Icon
              name={item.severity === "low" ? "bolt" : "warning"}
              label={word("severity", item.severity)}
            />
          </span>
          <div>
            <Words item={item} />
          </div>
          <Link className="button small" to={placeOf(item)}>
            {t("attention.look")}
          </Link>
        </li>
      ))}
    </ol>
  );
}
