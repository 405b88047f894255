import { call } from "../../api/client";
import type { RunStepView, RunView } from "../../generated/api";
import { useT } from "../../i18n";
import { count, span } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { useSearch } from "../../lib/router";
import { isLive, MOST_DRAWN, STEP_STATES } from "../../lib/steps";
import { Ago, Card } from "../../ui/basics";
import { StateSelect } from "../../ui/filters";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import type { Column } from "../../ui/Table";

const AT_ONCE = 200;

/** The name under which the steps of a run are renewed: to look at thousands each time that one of
 * them changes would cost the master too much, so those are asked for every few seconds. */
export function newsOf(run: RunView): string {
  return run.steps > MOST_DRAWN ? "far-runs" : "runs";
}

/** `12 / 40` of a step that spreads, as far as is known. */
export function Instances({ step }: { step: RunStepView }) {
  if (!step.for_each) return <>{step.count || "–"}</>;
  if (step.done === null || step.done === undefined) return <>{count(step.count)}</>;
  return (
    <span className="nowrap">
      {count(step.done + (step.undone ?? 0))} / {count(step.count)}
      {step.undone ? <span className="tone-bad"> ({count(step.undone)})</span> : ""}
    </span>
  );
}

function Took({ step }: { step: RunStepView }) {
  if (!step.started_at) return <>–</>;
  if (!step.ended_at) return <Ago at={step.started_at} />;
  return <>{span((Date.parse(step.ended_at) - Date.parse(step.started_at)) / 1000)}</>;
}

/** The steps of a run one below the other: for runs of any size, and for those who read. */
export function StepTable({ run }: { run: RunView }) {
  const t = useT();
  const [search, change] = useSearch();
  const status = search.get("status") ?? "";
  const found = usePages<RunStepView>(
    [newsOf(run), run.id, "list", status, isLive(run.status)],
    (cursor) =>
      call("get", "/api/v1/runs/{run_id}/steps", {
        path: { run_id: run.id },
        query: { limit: AT_ONCE, ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) },
      }),
    isLive(run.status) ? 5000 : false,
  );
  const chosen = search.get("step");
  const columns: Column<RunStepView>[] = [
    { title: t("tasks.state"), cell: (step) => <State family="step" name={step.status} /> },
    {
      title: t("flow.step"),
      cell: (step) => (
        <button
          type="button"
          className="step-name"
          aria-pressed={step.name === chosen}
          onClick={() => change({ step: step.name })}
        >
          {step.name}
        </button>
      ),
    },
    { title: t("tasks.type"), cell: (step) => <span className="muted">{step.task_type}</span> },
    { title: t("nav.tasks"), right: true, cell: (step) => <Instances step={step} /> },
    {
      title: t("flow.took"),
      right: true,
      cell: (step) => (
        <span className="nowrap">
          <Took step={step} />
        </span>
      ),
    },
    {
      title: t("flow.reason"),
      cell: (step) => (
        <div className="muted small reason breaks">
          {step.reason || (step.optional ? t("flow.optional") : "")}
        </div>
      ),
    },
  ];
  return (
    <Card flush>
      <search className="filters filters-in">
        <StateSelect family="step" values={STEP_STATES} />
      </search>
      <Listing
        of={found}
        label={t("flow.steps.title")}
        columns={columns}
        rowKey={(step) => step.name}
        filters={["status"]}
        more={t("flow.moreSteps")}
        empty={<p className="card-body muted">{t("flow.noSteps")}</p>}
      />
    </Card>
  );
}
