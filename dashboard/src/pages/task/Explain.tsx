import { useQuery } from "@tanstack/react-query";
import { explanation } from "../../api/queries";
import type { Explanation } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { filtersOf, funnel } from "../../lib/explain";
import { count, span } from "../../lib/format";
import { Link } from "../../lib/router";
import { Card, Loaded, useNow } from "../../ui/basics";
import { Icon } from "../../ui/Icon";

/** Filter by filter: how many nodes are left after each. */
function Funnel({ placement }: { placement: Explanation }) {
  const t = useT();
  const word = useWord();
  return (
    <ol className="bars">
      <li className="bar">
        <span>{t("explain.allNodes")}</span>
        <span className="track" aria-hidden="true">
          <span className="fill" style={{ width: "100%" }} />
        </span>
        <span>{count(placement.nodes)}</span>
      </li>
      {funnel(placement).map((step) => (
        <li className="bar" key={step.filter}>
          <span className={step.rejected ? "strong" : "muted"}>{word("filter", step.filter)}</span>
          <span className="track" aria-hidden="true">
            <span
              className={`fill ${step.left === 0 ? "bad" : ""}`}
              style={{ width: `${(100 * step.left) / Math.max(1, placement.nodes)}%` }}
            />
          </span>
          <span className="nowrap">
            {step.rejected > 0 && <span className="tone-bad">−{count(step.rejected)} </span>}
            {count(step.left)}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** Node by node: which filter said no, in its own words. */
function Matrix({ placement }: { placement: Explanation }) {
  const t = useT();
  const word = useWord();
  const { reason } = useRetelling();
  const filters = filtersOf(placement);
  return (
    <div className="table-wrap" role="group" tabIndex={0} aria-label={t("explain.byNode")}>
      <table className="table matrix">
        <caption className="hidden-text">{t("explain.byNode")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("nodes.name")}</th>
            <th scope="col" className="words">
              {t("explain.why")}
            </th>
            {filters.map((name) => (
              <th scope="col" key={name}>
                {word("filter", name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {placement.details.map((node) => (
            <tr key={node.node_id}>
              <td>
                <Link to={`/nodes/${encodeURIComponent(node.node_id)}`}>{node.name}</Link>
              </td>
              <td className="words small">
                {(node.reasons ?? []).length === 0
                  ? t("explain.could")
                  : (node.reasons ?? []).map(reason).join(t("explain.sum.semicolon"))}
              </td>
              {filters.map((name) => {
                const against = (node.reasons ?? []).some((each) => each.filter === name);
                return (
                  <td key={name} className={against ? "no" : "yes"}>
                    <Icon
                      name={against ? "close" : "check"}
                      label={against ? t("explain.no") : t("explain.yes")}
                    />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Explain({ id }: { id: string }) {
  const t = useT();
  const now = useNow();
  const { summary } = useRetelling();
  const found = useQuery(explanation(id));
  return (
    <Loaded of={found} rows={8}>
      {(why) => (
        <div className="stack">
          <div className="notice busy" role="status">
            <Icon name="search" />
            <span className="strong">{summary(why)}</span>
          </div>
          {why.ready_at ? (
            <p className="muted">
              {t("explain.readyIn", { span: span(Math.max(0, why.ready_at - now / 1000)) })}
            </p>
          ) : null}
          {why.ready_tasks !== undefined && why.ready_tasks !== null && (
            <p className="muted">{t("explain.beside", { n: count(why.ready_tasks) })}</p>
          )}
          {why.placement ? (
            <div className="grid">
              <Card className="span-12" title={t("explain.byFilter")}>
                <Funnel placement={why.placement} />
              </Card>
              <Card className="span-12" title={t("explain.byNode")} flush>
                <Matrix placement={why.placement} />
              </Card>
            </div>
          ) : (
            <p className="muted">{t("explain.nothing")}</p>
          )}
        </div>
      )}
    </Loaded>
  );
}
