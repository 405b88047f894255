import { useQuery } from "@tanstack/react-query";
import { crawlWork, nodes as nodesQuery } from "../../api/queries";
import type {
  CrawlView,
  CrawlWork,
  HostWork,
  KeyWork,
  PartitionWork,
  ShardWork,
} from "../../generated/api";
import { type Key, useT } from "../../i18n";
import { count, short, shortId, span } from "../../lib/format";
import { Link } from "../../lib/router";
import { Card, Chip, Loaded } from "../../ui/basics";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";

const WHY: Record<string, Key> = {
  closed: "work.closed",
  elsewhere: "work.elsewhere",
  away: "work.away",
};

function Missing({ why }: { why: string | undefined }) {
  const t = useT();
  return <p className="empty muted">{t(WHY[why ?? ""] ?? "work.nothing")}</p>;
}

/** Of how many the rows are the first, where they are not all. */
function FirstOf({ shown, total }: { shown: number; total: number }) {
  const t = useT();
  return shown < total ? <>{t("work.firstOf", { n: count(shown), total: count(total) })}</> : null;
}

function Shards({ shards }: { shards: readonly ShardWork[] }) {
  const t = useT();
  const known = useQuery({ ...nodesQuery, retry: false });
  const names = new Map(known.data?.items.map((node) => [node.id, node.name]));
  const columns: Column<ShardWork>[] = [
    {
      title: t("work.shard"),
      cell: (row) => (
        <Link to={`/tasks/${encodeURIComponent(row.task_id)}`}>
          {t("work.shardNumber", { n: row.shard })}
        </Link>
      ),
    },
    { title: t("tasks.state"), cell: (row) => <State family="task" name={row.state} /> },
    {
      title: t("tasks.node"),
      cell: (row) =>
        row.node_id ? (
          <Link to={`/nodes/${encodeURIComponent(row.node_id)}`}>
            {names.get(row.node_id) ?? shortId(row.node_id)}
          </Link>
        ) : (
          "–"
        ),
    },
    { title: t("crawls.pages"), right: true, cell: (row) => number(row.pages) },
    { title: t("crawls.items"), right: true, cell: (row) => number(row.items) },
    {
      title: t("crawls.rate"),
      right: true,
      cell: (row) =>
        row.rate_per_s == null ? "–" : `${short(row.rate_per_s)} ${t("unit.perSecond")}`,
    },
    { title: t("work.hostsHeld"), right: true, cell: (row) => number(row.hosts) },
  ];
  return (
    <Table label={t("work.shards")} columns={columns} rows={shards} rowKey={(row) => row.task_id} />
  );
}

function number(value: number | null | undefined): string {
  return value == null ? "–" : count(value);
}

function useHolder(): (shard: number | null | undefined, execution: string) => string {
  const t = useT();
  return (shard, execution) =>
    shard == null ? shortId(execution) : t("work.shardNumber", { n: shard });
}

function Partitions({ work }: { work: CrawlWork }) {
  const t = useT();
  const holder = useHolder();
  const rows = work.partitions ?? [];
  if (rows.length === 0) return <Missing why={work.frontier} />;
  const columns: Column<PartitionWork>[] = [
    { title: t("work.partition"), cell: (row) => count(row.number) },
    { title: t("crawls.waiting"), right: true, cell: (row) => count(row.waiting) },
    { title: t("crawl.inFlight"), right: true, cell: (row) => count(row.in_flight) },
    { title: t("crawl.done"), right: true, cell: (row) => count(row.done) },
    { title: t("work.hosts"), right: true, cell: (row) => count(row.hosts) },
    {
      title: t("work.owners"),
      cell: ({ holders = [], holders_total = 0 }) => (
        <span className="row wrap">
          {holders.map((each) => (
            <Chip key={each.execution_id}>
              {holder(each.shard, each.execution_id)} · {t("work.holds", { n: count(each.hosts) })}
            </Chip>
          ))}
          {holders.length === 0 && <span className="muted">{t("work.nobody")}</span>}
          {holders.length < holders_total && (
            <span className="muted">
              {t("work.more", { n: count(holders_total - holders.length) })}
            </span>
          )}
        </span>
      ),
    },
  ];
  return (
    <Table
      label={t("work.partitions")}
      columns={columns}
      rows={rows}
      rowKey={(row) => String(row.number)}
    />
  );
}

function Hosts({ work }: { work: CrawlWork }) {
  const t = useT();
  const holder = useHolder();
  const rows = work.hosts ?? [];
  if (rows.length === 0) return <Missing why={work.frontier} />;
  const columns: Column<HostWork>[] = [
    { title: t("crawl.host"), cell: (row) => <span className="breaks">{row.host}</span> },
    { title: t("work.partition"), right: true, cell: (row) => count(row.partition) },
    { title: t("crawls.waiting"), right: true, cell: (row) => count(row.waiting) },
    { title: t("crawl.inFlight"), right: true, cell: (row) => count(row.in_flight) },
    { title: t("crawl.done"), right: true, cell: (row) => count(row.done) },
    {
      title: t("work.owner"),
      cell: (row) =>
        row.execution_id ? (
          <Chip>{holder(row.shard, row.execution_id)}</Chip>
        ) : (
          <span className="muted">{t("work.nobody")}</span>
        ),
    },
  ];
  return (
    <Table label={t("work.queues")} columns={columns} rows={rows} rowKey={(row) => row.host} />
  );
}

const KINDS: [string, Key][] = [
  ["host:", "work.kind.host"],
  ["domain:", "work.kind.domain"],
  ["address:", "work.kind.address"],
];

function Named({ name }: { name: string }) {
  const t = useT();
  const [prefix, kind] = KINDS.find(([begin]) => name.startsWith(begin)) ?? ["", null];
  return (
    <span className="breaks">
      {kind && <span className="muted small">{t(kind)} </span>}
      {name.slice(prefix.length)}
    </span>
  );
}

function Visitors({ row, own }: { row: KeyWork; own: string }) {
  const t = useT();
  const { visitors = [], visitors_total = 0 } = row;
  return (
    <span className="row wrap">
      {visitors.map(({ task_id, task_type }) =>
        task_id === own ? (
          <span key={task_id} className="muted">
            {t("work.this")}
          </span>
        ) : (
          <Link
            key={task_id}
            to={`/${task_type === "web_crawl" ? "crawls" : "tasks"}/${encodeURIComponent(task_id)}`}
          >
            {shortId(task_id)}
          </Link>
        ),
      )}
      {visitors.length < visitors_total && (
        <span className="muted">
          {t("work.more", { n: count(visitors_total - visitors.length) })}
        </span>
      )}
    </span>
  );
}

function Ledger({ work, own }: { work: CrawlWork; own: string }) {
  const t = useT();
  const rows = work.keys ?? [];
  if (rows.length === 0) return <Missing why={work.ledger} />;
  const columns: Column<KeyWork>[] = [
    { title: t("work.key"), cell: (row) => <Named name={row.key} /> },
    { title: t("work.delay"), right: true, cell: (row) => span(row.delay_s) },
    { title: t("work.atOnce"), right: true, cell: (row) => count(row.concurrency) },
    {
      title: t("work.granted"),
      right: true,
      cell: (row) =>
        row.granted
          ? t("work.grantedFor", { n: count(row.granted), span: span(row.granted_for_s ?? 0) })
          : "–",
    },
    { title: t("work.turns"), right: true, cell: (row) => number(row.waiting ?? 0) },
    {
      title: t("work.paused"),
      cell: (row) =>
        row.paused_for_s ? (
          <span className="row wrap">
            <Chip tone="warn">{t("crawl.restsFor", { span: span(row.paused_for_s) })}</Chip>
            <span className="breaks small">{row.pause}</span>
          </span>
        ) : (
          <span className="muted">–</span>
        ),
    },
    { title: t("work.visitors"), cell: (row) => <Visitors row={row} own={own} /> },
  ];
  return <Table label={t("work.ledger")} columns={columns} rows={rows} rowKey={(row) => row.key} />;
}

/** Who does what: shards on their nodes, the frontier's partitions, and who asks which host. */
export function Work({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const found = useQuery(crawlWork(crawl.task_id, crawl.state));
  return (
    <Loaded of={found} rows={8}>
      {(work) => (
        <div className="grid">
          <Card className="span-12" title={t("work.shards")} flush>
            <Shards shards={work.shards ?? []} />
          </Card>
          <Card
            className="span-12"
            title={t("work.partitions")}
            aside={
              <FirstOf shown={work.partitions?.length ?? 0} total={work.partitions_total ?? 0} />
            }
            flush
          >
            <Partitions work={work} />
          </Card>
          <Card className="span-12" title={t("work.queues")} flush>
            <Hosts work={work} />
          </Card>
          <Card
            className="span-12"
            title={t("work.ledger")}
            aside={<FirstOf shown={work.keys?.length ?? 0} total={work.keys_total ?? 0} />}
            flush
          >
            <Ledger work={work} own={crawl.task_id} />
          </Card>
        </div>
      )}
    </Loaded>
  );
}
