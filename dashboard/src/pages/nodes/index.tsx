import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { nodeHistory, nodes } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { NodeView } from "../../generated/api";
import { type Key, useT, useWord } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { bytes, count } from "../../lib/format";
import { isolationOf } from "../../lib/isolation";
import { distinct, fits, isConnected, nodeFilter, ordered } from "../../lib/nodes";
import { Link, useSearch } from "../../lib/router";
import { useVisible } from "../../lib/visible";
import { Ago, Button, Card, Empty, Loaded, Meter, PageHead } from "../../ui/basics";
import { SearchFilter, SelectFilter, StateSelect } from "../../ui/filters";
import { Icon } from "../../ui/Icon";
import { NoNodes } from "../../ui/NoNodes";
import { Sparkline } from "../../ui/Sparkline";
import { State } from "../../ui/State";
import { NodeActions } from "./NodeActions";

const FIRST = 100;

function Sorter({ name, title }: { name: string; title: Key }) {
  const t = useT();
  const [search, change] = useSearch();
  const order = search.get("sort") ?? "name";
  const down = order === `-${name}`;
  const active = down || order === name;
  return (
    <th scope="col" aria-sort={active ? (down ? "descending" : "ascending") : "none"}>
      <button
        type="button"
        className="sorter"
        onClick={() => change({ sort: order === name ? `-${name}` : name })}
      >
        {t(title)} {active && <span aria-hidden="true">{down ? "↓" : "↑"}</span>}
      </button>
    </th>
  );
}

/** The level; what it means, and the first reason why it is no higher, as a tool tip. */
function IsolationLevel({ node }: { node: NodeView }) {
  const t = useT();
  const word = useWord();
  const { level, missing } = isolationOf(node.capabilities);
  if (!level) return <span className="muted">–</span>;
  const lacks = missing.map(({ layer, why }) => `${word("layer", layer)}: ${why}`);
  const told = [t(`isolation.${level}` as Key), ...lacks].join("\n");
  return (
    <span className="chip" title={told}>
      {level}
    </span>
  );
}

function NodeRow({ node }: { node: NodeView }) {
  const t = useT();
  const why = useRetelling().health(node);
  const { operates } = useVisitor();
  const ref = useRef<HTMLTableRowElement>(null);
  const visible = useVisible(ref);
  const connected = isConnected(node);
  const past = useQuery({
    ...nodeHistory(node.id, "raw", 40, 10_000),
    enabled: visible && connected,
  });
  const samples = past.data?.items ?? [];
  const slots = node.resources.slots ?? 0;
  const network = samples.map((sample) => sample.network_io);
  return (
    <tr ref={ref} className={connected ? "" : "away"}>
      <td className="nowrap">
        <Link to={`/nodes/${encodeURIComponent(node.id)}`} className="strong">
          {node.name}
        </Link>
        <div className="muted small">
          {[node.region, node.cluster_id !== "default" && node.cluster_id]
            .filter(Boolean)
            .join(" · ") || node.node_type}
        </div>
      </td>
      <td>
        <State family="node" name={node.status} />
      </td>
      <td title={why}>
        <State family="health" name={node.health} />
        {why && <div className="muted small">{why}</div>}
      </td>
      <td>
        <IsolationLevel node={node} />
      </td>
      {connected ? (
        <>
          <td>
            <div className="cell-spark">
              <Sparkline
                values={samples.map((each) => each.cpu_usage)}
                most={1}
                label={t("nodes.cpu")}
              />
              <Meter share={node.usage.cpu_usage ?? 0} label={t("nodes.cpu")} />
            </div>
          </td>
          <td>
            <div className="cell-spark">
              <Sparkline
                values={samples.map((each) => each.memory_usage)}
                most={1}
                label={t("nodes.memory")}
                colour="var(--series-2)"
              />
              <Meter share={node.usage.memory_usage ?? 0} label={t("nodes.memory")} alarming />
            </div>
          </td>
          <td>
            <div className="cell-spark">
              <Sparkline values={network} label={t("nodes.network")} colour="var(--series-5)" />
              <span className="small">{bytes(node.usage.network_io ?? 0)}/s</span>
            </div>
          </td>
        </>
      ) : (
        <td colSpan={3} className="muted small">
          {t("nodes.away")}
        </td>
      )}
      <td className="right">
        <Link to={`/tasks?node=${encodeURIComponent(node.id)}&status=assigned%2Cprocessing`}>
          {count(node.active_tasks.length)}
        </Link>
        <span className="muted"> / {count(slots)}</span>
      </td>
      <td className="muted small">
        <Ago at={node.last_heartbeat} />
      </td>
      {operates && (
        <td className="right">
          <NodeActions node={node} brief />
        </td>
      )}
    </tr>
  );
}

function NodeTable({ shown }: { shown: readonly NodeView[] }) {
  const t = useT();
  const { operates } = useVisitor();
  const [most, setMost] = useState(FIRST);
  return (
    <Card flush>
      <div className="table-wrap" role="group" tabIndex={0} aria-label={t("nav.nodes")}>
        <table className="table">
          <caption className="hidden-text">{t("nav.nodes")}</caption>
          <thead>
            <tr>
              <Sorter name="name" title="nodes.name" />
              <Sorter name="status" title="nodes.status" />
              <th scope="col">{t("nodes.health")}</th>
              <th scope="col">{t("isolation.title")}</th>
              <Sorter name="cpu" title="nodes.cpu" />
              <Sorter name="memory" title="nodes.memory" />
              <Sorter name="network" title="nodes.network" />
              <Sorter name="tasks" title="nodes.tasks" />
              <th scope="col">{t("nodes.heartbeat")}</th>
              {operates && (
                <th scope="col">
                  <span className="hidden-text">{t("common.actions")}</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, most).map((node) => (
              <NodeRow key={node.id} node={node} />
            ))}
          </tbody>
        </table>
      </div>
      {shown.length > most && (
        <p className="card-body">
          <Button onClick={() => setMost(most + 200)}>
            {t("common.more", { n: count(shown.length - most) })}
          </Button>
        </p>
      )}
    </Card>
  );
}

export default function Nodes() {
  const t = useT();
  const { administers } = useVisitor();
  const [search] = useSearch();
  const all = useQuery(nodes);
  const filter = useMemo(() => nodeFilter(search), [search]);
  const order = search.get("sort") ?? "name";
  const items = all.data?.items ?? [];
  const shown = useMemo(
    () =>
      ordered(
        items.filter((node) => fits(node, filter)),
        order,
      ),
    [items, filter, order],
  );
  const values = (of: (node: NodeView) => string | null) => distinct(items.map(of));
  return (
    <>
      <PageHead
        title={
          <>
            <h1>{t("nav.nodes")}</h1>
            {all.data && <span className="muted">{count(items.length)}</span>}
          </>
        }
      >
        {administers && (
          <Link className="button" to="/settings/join-tokens">
            <Icon name="submit" /> {t("nodes.add")}
          </Link>
        )}
      </PageHead>
      <Loaded of={all} rows={8}>
        {() =>
          items.length === 0 ? (
            <NoNodes />
          ) : (
            <>
              <search className="filters">
                <SearchFilter label={t("nodes.search")} />
                <StateSelect
                  family="node"
                  label={t("nodes.status")}
                  values={values((node) => node.status)}
                />
                <StateSelect
                  family="health"
                  name="health"
                  label={t("nodes.health")}
                  values={values((node) => node.health)}
                />
                <SelectFilter
                  name="region"
                  label={t("nodes.region")}
                  values={values((node) => node.region)}
                />
                <SelectFilter
                  name="cluster"
                  label={t("nodes.cluster")}
                  values={values((node) => node.cluster_id)}
                />
              </search>
              {shown.length === 0 ? (
                <Card>
                  <Empty icon="search" title={t("common.nothingFits")}>
                    <Link to="/nodes">{t("common.clearFilters")}</Link>
                  </Empty>
                </Card>
              ) : (
                <NodeTable shown={shown} />
              )}
            </>
          )
        }
      </Loaded>
    </>
  );
}
