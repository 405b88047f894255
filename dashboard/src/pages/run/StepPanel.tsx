/** One step of a run: what it does, how it stands and why, and its tasks. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { call } from "../../api/client";
import { executions, isOver, task as taskQuery, workflowDocument } from "../../api/queries";
import type { RunStepView, RunView, Step, TaskView } from "../../generated/api";
import { useT } from "../../i18n";
import { count, shortId, span } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { downstream, isLive, shownStep } from "../../lib/steps";
import { Ago, Button, Card, Coded, Loaded } from "../../ui/basics";
import { State } from "../../ui/State";
import { TaskQuality } from "../quality/TaskQuality";
import { RerunFrom } from "./RunActions";
import { Instances } from "./StepTable";

const MOST_LISTED = 12;
const LOOKED_AT = 1000;

function expression(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Facts({ step, planned }: { step: RunStepView; planned: Step | undefined }) {
  const t = useT();
  const [, change] = useSearch();
  const took =
    step.started_at && step.ended_at
      ? (Date.parse(step.ended_at) - Date.parse(step.started_at)) / 1000
      : null;
  return (
    <dl className="facts">
      <dt>{t("tasks.type")}</dt>
      <dd>{step.task_type}</dd>
      {step.depends_on.length > 0 && (
        <>
          <dt>{t("flow.after")}</dt>
          <dd>
            <ul>
              {step.depends_on.map((each) => (
                <li key={each.step}>
                  <button
                    type="button"
                    className="step-name"
                    onClick={() => change({ step: each.step })}
                  >
                    {each.step}
                  </button>{" "}
                  <span className="muted small">{t(`on.${each.on ?? "success"}`)}</span>
                </li>
              ))}
            </ul>
          </dd>
        </>
      )}
      {planned?.when && (
        <>
          <dt>{t("flow.when")}</dt>
          <dd>
            <code className="breaks">{planned.when}</code>
          </dd>
        </>
      )}
      {planned?.for_each !== undefined && planned.for_each !== null && (
        <>
          <dt>{t("flow.forEach")}</dt>
          <dd>
            <code className="breaks">{expression(planned.for_each).slice(0, 400)}</code>
          </dd>
        </>
      )}
      {step.optional && (
        <>
          <dt>{t("flow.optional")}</dt>
          <dd>{t("flow.optionalText")}</dd>
        </>
      )}
      <dt>{t("flow.began")}</dt>
      <dd>
        <Ago at={step.started_at} />
        {took !== null && <span className="muted"> · {span(took)}</span>}
      </dd>
      {step.attempt > 1 && (
        <>
          <dt>{t("flow.attempt")}</dt>
          <dd>{step.attempt}</dd>
        </>
      )}
      {step.for_each && (
        <>
          <dt>{t("nav.tasks")}</dt>
          <dd>
            <Instances step={step} />
          </dd>
        </>
      )}
    </dl>
  );
}

/** The task of a step, its attempts, and where its result is; `said` is what is told of it already. */
function OneTask({ id, said }: { id: string; said: string }) {
  const t = useT();
  const found = useQuery(taskQuery(id));
  const attempts = useQuery({ ...executions(id), enabled: found.data !== undefined });
  const to = `/tasks/${encodeURIComponent(id)}`;
  return (
    <Loaded of={found} rows={3}>
      {(task) => (
        <div className="stack tight">
          <div className="row between wrap">
            <State family="task" name={task.status} />
            <Link to={to} className="mono small" title={id}>
              {shortId(id)}
            </Link>
          </div>
          {task.error && task.error.message !== said && (
            <div className="notice bad breaks">
              <Coded text={task.error.message} />
            </div>
          )}
          {(attempts.data?.items.length ?? 0) > 0 && (
            <ol className="attempts small" aria-label={t("flow.attempts")}>
              {attempts.data?.items.map((each, index) => (
                <li key={each.id}>
                  <span className="row between wrap">
                    <span>
                      {t("tasks.attemptNumber", { n: index + 1 })}{" "}
                      <State family="task" name={each.status} />
                    </span>
                    <Link to={`${to}?tab=log&execution=${encodeURIComponent(each.id)}`}>
                      {t("log.title")}
                    </Link>
                  </span>
                </li>
              ))}
            </ol>
          )}
          {task.expectations && isOver(task.status) && <TaskQuality taskId={id} />}
          {task.result ? <Link to={to}>{t("flow.result")}</Link> : null}
        </div>
      )}
    </Loaded>
  );
}

/** The tasks of a step that spreads: first those that one has to look at. */
function ManyTasks({ run, step }: { run: RunView; step: RunStepView }) {
  const t = useT();
  const wanted = step.undone ? "failed,timeout,cancelled" : isLive(run.status) ? "processing" : "";
  const found = useQuery({
    queryKey: ["tasks", "of-step", run.id, step.name, step.attempt, wanted],
    queryFn: () =>
      call("get", "/api/v1/tasks", {
        query: {
          workflow_id: run.id,
          brief: true,
          limit: LOOKED_AT,
          ...(wanted ? { status: wanted } : {}),
        },
      }),
    refetchInterval: isLive(run.status) ? 3000 : false,
  });
  const own = (task: TaskView) =>
    task.step?.step === step.name && (task.step.attempt ?? 1) === step.attempt;
  const all = `/tasks?workflow=${encodeURIComponent(run.id)}`;
  return (
    <Loaded of={found} rows={3}>
      {({ items }) => {
        const listed = items.filter(own).slice(0, MOST_LISTED);
        return (
          <div className="stack tight">
            {listed.length > 0 ? (
              <ul className="attempts small">
                {listed.map((task) => (
                  <li key={task.id}>
                    <span className="row between">
                      <State family="task" name={task.status} />
                      <Link
                        to={`/tasks/${encodeURIComponent(task.id)}`}
                        className="mono small"
                        title={task.id}
                      >
                        #{task.step?.index ?? 0} {shortId(task.id)}
                      </Link>
                    </span>
                    {task.error && <span className="muted breaks">{task.error.message}</span>}
                  </li>
                ))}
              </ul>
            ) : (
              <p className="muted small">{t("flow.noneToShow")}</p>
            )}
            {step.status === "held" && <Link to="/quality">{t("nav.quality")}</Link>}
            <Link to={wanted ? `${all}&status=${encodeURIComponent(wanted)}` : all}>
              {t("flow.allTasks")}
            </Link>
          </div>
        );
      }}
    </Loaded>
  );
}

interface StepPanelProps {
  run: RunView;
  step: RunStepView;
  /** All of them, where they are few enough to be known. */
  steps: readonly RunStepView[] | null;
  /** Whether it was chosen here, and not by the address that one came with. */
  isChosenHere: boolean;
}

export function StepPanel({ run, step, steps, isChosenHere }: StepPanelProps) {
  const t = useT();
  const [, change] = useSearch();
  const heading = useRef<HTMLDivElement>(null);
  const document = useQuery(workflowDocument(run.workflow_id, run.workflow_version));
  const planned = document.data?.document?.steps[step.name];
  // biome-ignore lint/correctness/useExhaustiveDependencies: another step is another place to read
  useEffect(() => {
    // Where the panel stands below the graph, whoever chose a step is taken there.
    if (isChosenHere && window.matchMedia("(max-width: 1180px)").matches) {
      heading.current?.scrollIntoView({ block: "nearest" });
    }
  }, [step.name]);
  const following = steps
    ? downstream(
        steps.map((each) => shownStep(each)),
        step.name,
      ).length
    : null;
  return (
    <div ref={heading}>
      <Card
        title={<span className="breaks">{step.name}</span>}
        aside={
          <Button
            size="small"
            look="plain"
            icon="close"
            aria-label={t("flow.closeStep")}
            onClick={() => change({ step: null })}
          />
        }
      >
        <div className="stack">
          <div className="row wrap between">
            <State family="step" name={step.status} />
            {step.count > 1 && step.undone ? (
              <span className="tone-bad small">{t("graph.undone", { n: count(step.undone) })}</span>
            ) : null}
          </div>
          {planned?.description && <p className="muted">{planned.description}</p>}
          {step.reason && (
            <div className={`notice breaks ${step.status === "failed" ? "bad" : ""}`}>
              <Coded text={step.reason} />
            </div>
          )}
          <Facts step={step} planned={planned} />
          {step.for_each
            ? step.count > 0 && <ManyTasks run={run} step={step} />
            : step.task_id && <OneTask id={step.task_id} said={step.reason ?? ""} />}
          <div>
            <RerunFrom run={run} step={step.name} following={following} />
          </div>
        </div>
      </Card>
    </div>
  );
}
