import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call } from "../../api/client";
import { nodeHistory, node as nodeQuery } from "../../api/queries";
import type { NodeHistoryView, NodeView } from "../../generated/api";
import { useT } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { bytes, count, percent, short, span } from "../../lib/format";
import { ISOLATION_NAMES } from "../../lib/isolation";
import { isConnected } from "../../lib/nodes";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import {
  Ago,
  Card,
  Chip,
  Clock,
  CopyButton,
  Crumbs,
  Loaded,
  Meter,
  PageHead,
  Segments,
} from "../../ui/basics";
import { Chart, Legend, type Line } from "../../ui/Chart";
import { EventMark } from "../../ui/events";
import { State } from "../../ui/State";
import { TaskLines } from "../../ui/TaskLines";
import { NodeActions } from "../nodes/NodeActions";

import { Isolation } from "./Isolation";

type Resolution = "raw" | "minute" | "hour";

function Facts({ node }: { node: NodeView }) {
  const t = useT();
  const why = useRetelling().health(node);
  const { resources: has } = node;
  const capabilities = Object.entries(node.capabilities).filter(
    ([name]) => !ISOLATION_NAMES.has(name),
  );
  return (
    <dl className="facts">
      <dt>{t("common.id")}</dt>
      <dd className="row">
        <span className="mono cut">{node.id}</span> <CopyButton text={node.id} />
      </dd>
      <dt>{t("nodes.health")}</dt>
      <dd>
        <State family="health" name={node.health} />
        {why && <div className="muted small">{why}</div>}
      </dd>
      <dt>{t("nodes.region")}</dt>
      <dd>{node.region ?? "–"}</dd>
      <dt>{t("nodes.cluster")}</dt>
      <dd>{node.cluster_id}</dd>
      <dt>{t("nodes.type")}</dt>
      <dd>{node.node_type}</dd>
      {node.description && (
        <>
          <dt>{t("common.description")}</dt>
          <dd>{node.description}</dd>
        </>
      )}
      <dt>{t("nodes.capacity")}</dt>
      <dd>
        {[
          t("nodes.cores", { n: short(has.cpu_cores ?? 0) }),
          bytes((has.memory_mb ?? 0) * 1e6),
          t("nodes.slots", { n: short(has.slots ?? 0) }),
        ].join(" · ")}
      </dd>
      <dt>{t("nodes.heartbeat")}</dt>
      <dd>
        <Ago at={node.last_heartbeat} />
      </dd>
      <dt>{t("nodes.joined")}</dt>
      <dd>
        <Ago at={node.created_at} />
      </dd>
      <dt>{t("nodes.executors")}</dt>
      <dd className="row wrap">
        {node.task_types.map((each) => (
          <Chip key={each}>{each}</Chip>
        ))}
      </dd>
      <dt>{t("nodes.capabilities")}</dt>
      <dd className="row wrap">
        {capabilities.map(([name, value]) => (
          <Chip key={name} tone="busy">
            {value === true ? name : `${name}: ${JSON.stringify(value)}`}
          </Chip>
        ))}
        {capabilities.length === 0 && <span className="muted">–</span>}
      </dd>
      <dt>{t("nodes.labels")}</dt>
      <dd className="row wrap">
        {Object.entries(node.labels).map(([name, value]) => (
          <Chip key={name}>
            {name}={value}
          </Chip>
        ))}
        {Object.keys(node.labels).length === 0 && <span className="muted">–</span>}
      </dd>
    </dl>
  );
}

function History({ past }: { past: NodeHistoryView }) {
  const t = useT();
  const drawn = useMemo(() => {
    const { items } = past;
    const line = (
      name: string,
      colour: string,
      of: (item: (typeof items)[number]) => number | null,
    ): Line => ({
      name,
      colour,
      values: items.map(of),
    });
    return {
      at: items.map((item) => Date.parse(item.at) / 1000),
      use: [
        line(t("nodes.cpu"), "--series-1", (item) => item.cpu_usage),
        line(t("nodes.memory"), "--series-2", (item) => item.memory_usage),
      ],
      io: [
        line(t("nodes.network"), "--series-5", (item) => item.network_io),
        line(t("nodes.disk"), "--series-3", (item) => item.disk_io),
      ],
      tasks: [line(t("nodes.tasks"), "--series-2", (item) => item.active_tasks)],
      latency: [line(t("nodes.latency"), "--series-3", (item) => item.latency_s)],
    };
  }, [past, t]);
  const charts = [
    [t("nodes.use"), drawn.use, percent, 1],
    [t("nodes.io"), drawn.io, (value: number) => `${bytes(value)}/s`, undefined],
    [t("nodes.tasks"), drawn.tasks, short, undefined],
    [t("nodes.latency"), drawn.latency, span, undefined],
  ] as const;
  return (
    <div className="two">
      {charts.map(([title, lines, format, most]) => (
        <div key={title}>
          <div className="row between">
            <h3>{title}</h3>
            {lines.length > 1 && <Legend lines={lines} />}
          </div>
          <Chart
            label={title}
            at={drawn.at}
            lines={lines}
            format={format}
            height={150}
            {...(most ? { most } : {})}
          />
        </div>
      ))}
    </div>
  );
}

function NodeLog({ id }: { id: string }) {
  const t = useT();
  const found = useQuery({
    queryKey: ["nodes", id, "events"],
    queryFn: () =>
      call("get", "/api/v1/events", { query: { subject: id, newest: true, limit: 30 } }),
  });
  return (
    <Loaded of={found}>
      {({ items }) => (
        <ul className="timeline">
          {[...items].reverse().map((event) => (
            <li key={event.seq}>
              <span className="dot">
                <EventMark event={event} />
              </span>
              <div className="row between">
                <span className="strong">{event.kind}</span>
                <span className="muted small">
                  <Clock at={event.at} />
                </span>
              </div>
              <div className="muted small breaks">{event.cause}</div>
            </li>
          ))}
          {items.length === 0 && <li className="muted">{t("events.none")}</li>}
        </ul>
      )}
    </Loaded>
  );
}

function Now({ node }: { node: NodeView }) {
  const t = useT();
  if (!isConnected(node)) return <p className="muted">{t("nodes.away")}</p>;
  return (
    <div className="stack tight">
      <div>
        <span className="muted small">{t("nodes.cpu")}</span>
        <Meter share={node.usage.cpu_usage ?? 0} label={t("nodes.cpu")} />
      </div>
      <div>
        <span className="muted small">{t("nodes.memory")}</span>
        <Meter share={node.usage.memory_usage ?? 0} label={t("nodes.memory")} alarming />
      </div>
      <div>
        <span className="muted small">
          {t("nodes.tasksOf", {
            n: count(node.active_tasks.length),
            slots: count(node.resources.slots ?? 0),
          })}
        </span>
        <Meter
          share={node.active_tasks.length / Math.max(1, node.resources.slots ?? 1)}
          label={t("nodes.tasks")}
        />
      </div>
    </div>
  );
}

function Shown({ node }: { node: NodeView }) {
  const t = useT();
  const [search, change] = useSearch();
  const resolution = (search.get("resolution") ?? "raw") as Resolution;
  const past = useQuery(nodeHistory(node.id, resolution, resolution === "raw" ? 300 : 1440));
  return (
    <div className="grid">
      <div className="span-8 stack">
        <Card
          title={t("nodes.history")}
          aside={
            <Segments
              label={t("nodes.resolution")}
              value={resolution}
              options={[
                ["raw", t("nodes.raw")],
                ["minute", t("nodes.day")],
                ["hour", t("nodes.month")],
              ]}
              onChange={(value) => change({ resolution: value === "raw" ? null : value })}
            />
          }
        >
          <Loaded of={past} rows={8}>
            {(data) => <History past={data} />}
          </Loaded>
        </Card>
        <Card
          title={t("nodes.current")}
          aside={
            <Link to={`/tasks?node=${encodeURIComponent(node.id)}`}>{t("nodes.allTasks")}</Link>
          }
          flush
        >
          <TaskLines
            query={{ assigned_node: node.id, status: "assigned,processing", limit: 50 }}
            empty={t("nodes.idle")}
          />
        </Card>
      </div>
      <div className="span-4 stack">
        <Card title={t("nodes.now")}>
          <Now node={node} />
        </Card>
        <Card title={t("nodes.about")}>
          <Facts node={node} />
        </Card>
        <Isolation node={node} />
        <Card title={t("nodes.log")}>
          <NodeLog id={node.id} />
        </Card>
      </div>
    </div>
  );
}

export default function NodePage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/nodes/{id}", path)?.id ?? "";
  const found = useQuery(nodeQuery(id));
  return (
    <>
      <Crumbs to="/nodes" parent={t("nav.nodes")} />
      <Loaded of={found} rows={10}>
        {(node) => (
          <>
            <PageHead
              title={
                <>
                  <h1 className="breaks">{node.name}</h1>
                  <State family="node" name={node.status} />
                </>
              }
            >
              <NodeActions node={node} />
            </PageHead>
            <Shown node={node} />
          </>
        )}
      </Loaded>
    </>
  );
}
