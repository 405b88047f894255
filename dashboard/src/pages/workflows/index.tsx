import { useQueries, useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { workflows } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { RunView, WorkflowView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { Ago, Card, Empty, Loaded, PageHead } from "../../ui/basics";
import { Icon } from "../../ui/Icon";
import { State } from "../../ui/State";
import { type Column, since, Table } from "../../ui/Table";
import { Tabs } from "../../ui/Tabs";
import { RunTable } from "./RunTable";

const NEWEST = 200;
const MOST_ASKED = 50;
const COMMAND = "crawlfleet workflows submit shop.yaml -p shop=https://shop.example";

/** The newest run of each workflow: most are among the newest runs of all, the others, which have
 * not run for long, are asked for one by one and seldom. */
function useLatest(items: readonly WorkflowView[]): Map<string, RunView | null> {
  const newest = useQuery({
    queryKey: ["runs", "newest"],
    queryFn: () => call("get", "/api/v1/runs", { query: { limit: NEWEST } }),
    refetchInterval: 5000,
  });
  const found = new Map<string, RunView | null>();
  for (const run of newest.data?.items ?? []) {
    if (!found.has(run.workflow_id)) found.set(run.workflow_id, run);
  }
  const whole = newest.data !== undefined && !newest.data.next_cursor;
  const rest = items.filter((each) => newest.data && !whole && !found.has(each.id));
  const others = useQueries({
    queries: rest.slice(0, MOST_ASKED).map((each) => ({
      queryKey: ["last-run", each.id],
      queryFn: () => call("get", "/api/v1/runs", { query: { workflow_id: each.id, limit: 1 } }),
      staleTime: 60_000,
    })),
  });
  rest.forEach((each, index) => {
    const answer = others[index]?.data;
    if (answer) found.set(each.id, answer.items[0] ?? null);
  });
  if (whole) for (const each of items) if (!found.has(each.id)) found.set(each.id, null);
  return found;
}

function Last({ run }: { run: RunView | null | undefined }) {
  const t = useT();
  if (run === undefined) return <span className="muted">…</span>;
  if (run === null) return <span className="muted">{t("flow.never")}</span>;
  return (
    <Link to={`/runs/${encodeURIComponent(run.id)}`} className="plain-link">
      <State family="run" name={run.status} />
      <div className="muted small">
        <Ago at={run.created_at} />
      </div>
    </Link>
  );
}

function List({ items }: { items: readonly WorkflowView[] }) {
  const t = useT();
  const { operates, seesFleet } = useVisitor();
  const latest = useLatest(items);
  const to = (each: WorkflowView) => `/workflows/${encodeURIComponent(each.id)}`;
  const columns: Column<WorkflowView>[] = [
    {
      title: t("flow.workflow"),
      cell: (each) => (
        <>
          <Link className="strong" to={to(each)}>
            {each.name}
          </Link>
          {each.description && <div className="muted small reason">{each.description}</div>}
        </>
      ),
    },
    { title: t("flow.last"), cell: (each) => <Last run={latest.get(each.id)} /> },
    ...(seesFleet
      ? [{ title: t("tasks.project"), cell: (each: WorkflowView) => each.project_id }]
      : []),
    { title: t("flow.version"), right: true, cell: (each) => count(each.latest) },
    { title: t("flow.steps.title"), right: true, cell: (each) => count(each.steps) },
    since(t("flow.changed"), (each) => each.updated_at),
  ];
  if (operates) {
    columns.push({
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) => (
        <Link
          className="button small"
          to={`${to(each)}?tab=start`}
          aria-label={`${t("flow.start")}: ${each.name}`}
        >
          <Icon name="play" /> {t("flow.start")}
        </Link>
      ),
    });
  }
  return (
    <Card flush>
      <Table label={t("nav.workflows")} columns={columns} rows={items} rowKey={(each) => each.id} />
    </Card>
  );
}

function NoWorkflows() {
  const t = useT();
  return (
    <Empty icon="workflows" title={t("flow.emptyTitle")} command={COMMAND}>
      {t("flow.emptyText")}
    </Empty>
  );
}

export default function Workflows() {
  const t = useT();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "workflows";
  const found = useQuery(workflows);
  return (
    <>
      <PageHead title={<h1>{t("nav.workflows")}</h1>} />
      <Tabs
        label={t("nav.workflows")}
        current={tab}
        tabs={[
          ["workflows", t("nav.workflows")],
          ["runs", t("flow.runs")],
        ]}
      />
      {tab === "runs" ? (
        <RunTable empty={<NoWorkflows />} />
      ) : (
        <Loaded of={found} rows={8}>
          {({ items }) =>
            items.length > 0 ? (
              <List items={items} />
            ) : (
              <Card>
                <NoWorkflows />
              </Card>
            )
          }
        </Loaded>
      )}
    </>
  );
}
