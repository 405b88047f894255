import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { call } from "../../api/client";
import { workflows } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { RunView } from "../../generated/api";
import { useT } from "../../i18n";
import { span } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, useSearch } from "../../lib/router";
import { isLive, RUN_STATES } from "../../lib/steps";
import { Card, Coded, useMoment } from "../../ui/basics";
import { ProjectSelect, SelectFilter, StateSelect } from "../../ui/filters";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import { type Column, since } from "../../ui/Table";
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
              <Coded text={run.error} />
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
    since(t("flow.began"), (run) => run.created_at),
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
  const [search] = useSearch();
  const known = useQuery({ ...workflows, enabled: !workflowId });
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
  const names = new Map(known.data?.items.map((each) => [each.id, each.name]));
  return (
    <>
      <search className="filters">
        <StateSelect family="run" values={RUN_STATES} />
        {!workflowId && (
          <SelectFilter
            name="workflow"
            label={t("flow.workflow")}
            values={[...names.keys()]}
            word={(id) => names.get(id) ?? id}
          />
        )}
        {!workflowId && <ProjectSelect />}
      </search>
      <Card flush>
        <Listing
          of={found}
          label={t("flow.runs")}
          columns={columns}
          rowKey={(run) => run.id}
          filters={["status", "project", "workflow"]}
          empty={empty}
        />
      </Card>
    </>
  );
}
