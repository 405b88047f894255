import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useRef } from "react";
import { call } from "../../api/client";
import { run as runQuery, runSteps, workflowDocument } from "../../api/queries";
import type { RunStepView, RunView } from "../../generated/api";
import { useT } from "../../i18n";
import { span } from "../../lib/format";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import { isLive, MOST_DRAWN, shownStep } from "../../lib/steps";
import { Ago, Card, Coded, CopyButton, Crumbs, Loaded, PageHead, useNow } from "../../ui/basics";
import { Graph } from "../../ui/graph/Graph";
import { Json } from "../../ui/Json";
import { State } from "../../ui/State";
import { Tabs } from "../../ui/Tabs";
import { RunActions } from "./RunActions";
import { StepPanel } from "./StepPanel";
import { newsOf, StepTable } from "./StepTable";
import { Tally } from "./Tally";

function Duration({ run }: { run: RunView }) {
  const now = useNow();
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  return <>{span(Math.max(0, end - Date.parse(run.created_at)) / 1000)}</>;
}

function About({ run }: { run: RunView }) {
  const t = useT();
  return (
    <Card title={t("tasks.about")}>
      <div className="stack">
        <dl className="facts">
          <dt>{t("common.id")}</dt>
          <dd className="row">
            <span className="mono cut">{run.id}</span>
            <CopyButton text={run.id} />
          </dd>
          <dt>{t("flow.workflow")}</dt>
          <dd>
            <Link to={`/workflows/${encodeURIComponent(run.workflow_id)}`}>{run.name}</Link>
          </dd>
          <dt>{t("flow.version")}</dt>
          <dd>{run.workflow_version}</dd>
          <dt>{t("tasks.project")}</dt>
          <dd>{run.project_id}</dd>
          <dt>{t("flow.began")}</dt>
          <dd>
            <Ago at={run.created_at} />
          </dd>
          <dt>{t("flow.took")}</dt>
          <dd>
            <Duration run={run} />
          </dd>
          {run.attempt > 1 && (
            <>
              <dt>{t("flow.attempt")}</dt>
              <dd>{run.attempt}</dd>
            </>
          )}
          <dt>{t("flow.cause")}</dt>
          <dd>{run.cause}</dd>
        </dl>
        <Link to={`/tasks?workflow=${encodeURIComponent(run.id)}`}>{t("flow.allTasks")}</Link>
        {Object.keys(run.parameters).length > 0 && (
          <>
            <h3>{t("tasks.parameters")}</h3>
            <Json value={run.parameters} label={t("tasks.parameters")} />
          </>
        )}
      </div>
    </Card>
  );
}

function Drawn({ run, steps }: { run: RunView; steps: readonly RunStepView[] }) {
  const t = useT();
  const [search, change] = useSearch();
  const document = useQuery(workflowDocument(run.workflow_id, run.workflow_version));
  const planned = document.data?.document?.steps;
  const shown = useMemo(
    () => steps.map((step) => shownStep(step, Boolean(planned?.[step.name]?.when))),
    [steps, planned],
  );
  const choose = useCallback((step: string) => change({ step }), [change]);
  return (
    <Card>
      <Graph
        label={t("flow.graphOf", { name: run.name })}
        steps={shown}
        chosen={search.get("step")}
        onChoose={choose}
      />
    </Card>
  );
}

/** The chosen step of a run that is too large for all of its steps to be asked for. */
function useFarStep(run: RunView, name: string | null, enabled: boolean) {
  return useQuery({
    queryKey: [newsOf(run), run.id, "step", name, isLive(run.status)],
    enabled: enabled && name !== null,
    refetchInterval: isLive(run.status) ? 5000 : false,
    placeholderData: (before) => before,
    queryFn: async () => {
      let cursor: string | null | undefined;
      do {
        const page: { items: RunStepView[]; next_cursor?: string | null } = await call(
          "get",
          "/api/v1/runs/{run_id}/steps",
          { path: { run_id: run.id }, query: { limit: 1000, ...(cursor ? { cursor } : {}) } },
        );
        const found = page.items.find((each) => each.name === name);
        if (found) return found;
        cursor = page.next_cursor;
      } while (cursor);
      return null;
    },
  });
}

function Shown({ run }: { run: RunView }) {
  const t = useT();
  const [search] = useSearch();
  const drawable = run.steps <= MOST_DRAWN;
  const tab = search.get("tab") ?? (drawable ? "graph" : "steps");
  const steps = useQuery({ ...runSteps(run.id, run.status), enabled: drawable });
  const name = search.get("step");
  const arrival = useRef(name);
  const far = useFarStep(run, name, !drawable);
  const chosen = drawable ? steps.data?.items.find((each) => each.name === name) : far.data;
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">{run.name}</h1>
            <State family="run" name={run.status} />
            <span className="muted">
              {t("flow.versionNumber", { n: run.workflow_version })} · <Ago at={run.created_at} />
            </span>
          </>
        }
      >
        <RunActions run={run} />
      </PageHead>
      {run.error && !isLive(run.status) && (
        <div className="notice bad breaks run-error">
          <Coded text={run.error} />
        </div>
      )}
      <Tally run={run} />
      {drawable ? (
        <Tabs
          label={t("flow.run")}
          current={tab}
          tabs={[
            ["graph", t("flow.graph")],
            ["steps", t("flow.steps.title")],
          ]}
        />
      ) : (
        <p className="notice">{t("flow.tooMany", { n: MOST_DRAWN })}</p>
      )}
      <div className="grid">
        <div className="span-8">
          {tab === "graph" && drawable ? (
            <Loaded of={steps} rows={10}>
              {({ items }) => <Drawn run={run} steps={items} />}
            </Loaded>
          ) : (
            <StepTable run={run} />
          )}
        </div>
        <div className="span-4 stack">
          {chosen && (
            <StepPanel
              key={chosen.name}
              isChosenHere={chosen.name !== arrival.current}
              run={run}
              step={chosen}
              steps={steps.data?.items ?? null}
            />
          )}
          <About run={run} />
        </div>
      </div>
    </>
  );
}

export default function RunPage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/runs/{id}", path)?.id ?? "";
  const found = useQuery(runQuery(id));
  return (
    <>
      <Crumbs to="/workflows?tab=runs" parent={t("flow.runs")} />
      <Loaded of={found} rows={10}>
        {(run) => <Shown run={run} />}
      </Loaded>
    </>
  );
}
