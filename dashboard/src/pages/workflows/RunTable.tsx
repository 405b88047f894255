import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { call } from "../../api/client";
import { projects, workflows } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { RunView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { span } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, useSearch } from "../../lib/router";
import { isLive, RUN_STATES } from "../../lib/steps";
import { Ago, Button, Card, Empty, Loaded, useMoment } from "../../ui/basics";
import { SelectFilter } from "../../ui/SelectFilter";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { TallyLine } from "../run/Tally";

function Took({ run }: { run: RunView }) {
  const now = useMoment();
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  return <>{span(Math.max(0, end - Date.parse(run.created_at)) / 1000)}</>;
}

export function useRunColumns(ofOne: boolean): Column<RunView>[] {
  const t = useT();
  const { seesFleet } = useVisitor();
  return [
    { title: t("tasks.state"), cell: (run) => <State family="run" name={run.status} /> },
    {
      title: t("flow.run"),
      cell: (run) => (
        <>
          <Link className="strong" to={`/runs/${encodeURIComponent(run.id)}`}>
            {ofOne ? <span className="mono">…{run.id.slice(-8)}</span> : run.name}
          </Link>{" "}
          <span className="muted small nowrap">
            {t("flow.versionNumber", { n: run.workflow_version })}
            {run.attempt > 1 && ` · ${t("tasks.attemptNumber", { n: run.attempt })}`}
          </span>
          {run.error && !isLive(run.status) && (
            <div className="muted small cut reason" title={run.error}>
              {run.error}
            </div>
          )}
        </>
      ),
    },
    ...(seesFleet && !ofOne
      ? [
          {
            title: t("tasks.project"),
            cell: (run: RunView) => <span className="muted">{run.project_id}</span>,
          },
        ]
      : []),
    { title: t("flow.steps.title"), cell: (run) => <TallyLine run={run} /> },
    {
      title: t("flow.took"),
      right: true,
      cell: (run) => (
        <span className="nowrap">
          <Took run={run} />
        </span>
      ),
    },
    {
      title: t("flow.began"),
      right: true,
      cell: (run) => (
        <span className="muted small">
          <Ago at={run.created_at} />
        </span>
      ),
    },
  ];
}

interface RunTableProps {
  /** Only the runs of this workflow. */
  workflowId?: string;
  empty: ReactNode;
}

/** Runs, newest first, with filters in the address. */
export function RunTable({ workflowId, empty }: RunTableProps) {
  const t = useT();
  const word = useWord();
  const { seesFleet } = useVisitor();
  const [search, change] = useSearch();
  const known = useQuery({ ...workflows, enabled: !workflowId });
  const tenants = useQuery({ ...projects, enabled: seesFleet && !workflowId });
  const filter = {
    ...(search.get("status") ? { status: search.get("status") as string } : {}),
    ...(search.get("project") ? { project_id: search.get("project") as string } : {}),
    ...(search.get("workflow") ? { workflow_id: search.get("workflow") as string } : {}),
    ...(workflowId ? { workflow_id: workflowId } : {}),
  };
  const found = usePages<RunView>(
    ["runs", "list", filter],
    (cursor) =>
      call("get", "/api/v1/runs", {
        query: { limit: 50, ...filter, ...(cursor ? { cursor } : {}) },
      }),
    5000,
  );
  const columns = useRunColumns(workflowId !== undefined);
  const isFiltered = Object.keys(filter).length > (workflowId ? 1 : 0);
  const names = new Map(known.data?.items.map((each) => [each.id, each.name]));
  return (
    <>
      <search className="filters">
        <SelectFilter
          name="status"
          label={t("tasks.state")}
          values={RUN_STATES}
          word={(state) => word("run", state)}
        />
        {!workflowId && (
          <SelectFilter
            name="workflow"
            label={t("flow.workflow")}
            values={[...names.keys()]}
            word={(id) => names.get(id) ?? id}
          />
        )}
        {!workflowId && seesFleet && (
          <SelectFilter
            name="project"
            label={t("tasks.project")}
            values={tenants.data?.items.map((each) => each.id) ?? []}
          />
        )}
      </search>
      <Card flush>
        <Loaded of={found} rows={8}>
          {(runs) =>
            runs.length > 0 ? (
              <Table
                label={t("flow.runs")}
                columns={columns}
                rows={runs}
                rowKey={(run) => run.id}
              />
            ) : isFiltered ? (
              <Empty icon="search" title={t("common.nothingFits")}>
                <Button onClick={() => change({ status: null, project: null, workflow: null })}>
                  {t("common.clearFilters")}
                </Button>
              </Empty>
            ) : (
              empty
            )
          }
        </Loaded>
        {found.hasNextPage && (
          <p className="card-body">
            <Button onClick={() => void found.fetchNextPage()}>{t("common.older")}</Button>
          </p>
        )}
      </Card>
    </>
  );
}
