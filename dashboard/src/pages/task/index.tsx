import { useQuery } from "@tanstack/react-query";
import { executions, explanation, isOver, nodes, task as taskQuery } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { TaskView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { short, span } from "../../lib/format";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import { labelOf } from "../../lib/rows";
import { requestOf } from "../../lib/snippets";
import {
  Ago,
  Card,
  Chip,
  CopyButton,
  Crumbs,
  Loaded,
  Meter,
  Outside,
  PageHead,
  useNow,
} from "../../ui/basics";
import { CopyAs } from "../../ui/CopyAs";
import { Json } from "../../ui/Json";
import { LogView } from "../../ui/LogView";
import { State } from "../../ui/State";
import { Tabs } from "../../ui/Tabs";
import { TaskQuality } from "../quality/TaskQuality";
import { Explain } from "./Explain";
import { TaskActions } from "./TaskActions";
import { Timeline } from "./Timeline";

function Duration({ task }: { task: TaskView }) {
  const now = useNow();
  if (!task.started_at) return <>–</>;
  const end = task.completed_at ? Date.parse(task.completed_at) : now;
  return <>{span(Math.max(0, end - Date.parse(task.started_at)) / 1000)}</>;
}

/** The run that a task is a step of; a workflow elsewhere is known by its tasks alone. */
function workflowOf(id: string, step: string | undefined): string {
  if (step === undefined) return `/tasks?workflow=${encodeURIComponent(id)}`;
  return `/runs/${encodeURIComponent(id)}?step=${encodeURIComponent(step)}`;
}

function Facts({ task }: { task: TaskView }) {
  const t = useT();
  const { seesFleet } = useVisitor();
  const fleet = useQuery({ ...nodes, enabled: seesFleet, refetchInterval: 30_000 });
  const node = fleet.data?.items.find((each) => each.id === task.assigned_node);
  const wishes = {
    ...(task.min_resources ?? {}),
    ...(task.capabilities ?? {}),
    ...(task.node_type ? { node_type: task.node_type } : {}),
    ...(task.target_region ? { region: task.target_region } : {}),
  };
  return (
    <dl className="facts">
      <dt>{t("common.id")}</dt>
      <dd className="row">
        <span className="mono cut">{task.id}</span>
        <CopyButton text={task.id} />
      </dd>
      <dt>{t("tasks.type")}</dt>
      <dd>{task.task_type}</dd>
      <dt>{t("tasks.priority")}</dt>
      <dd>{task.priority}</dd>
      <dt>{t("tasks.project")}</dt>
      <dd>
        <Link to={`/tasks?project=${encodeURIComponent(task.project_id)}`}>{task.project_id}</Link>
        {task.cluster_id !== "default" && <span className="muted"> · {task.cluster_id}</span>}
      </dd>
      {task.workflow_id && (
        <>
          <dt>{t("tasks.workflow")}</dt>
          <dd>
            <Link to={workflowOf(task.workflow_id, task.step?.step)}>{task.workflow_id}</Link>
            {task.step && (
              <span className="muted"> · {t("flow.stepNamed", { name: task.step.step })}</span>
            )}
          </dd>
        </>
      )}
      <dt>{t("tasks.node")}</dt>
      <dd>
        {task.assigned_node ? (
          <Link to={`/nodes/${encodeURIComponent(task.assigned_node)}`}>
            {node?.name ?? task.assigned_node}
          </Link>
        ) : (
          "–"
        )}
      </dd>
      <dt>{t("tasks.made")}</dt>
      <dd>
        <Ago at={task.created_at} />
      </dd>
      <dt>{t("tasks.ran")}</dt>
      <dd>
        <Duration task={task} />
      </dd>
      <dt>{t("tasks.tries")}</dt>
      <dd>
        {t("tasks.triesOf", { n: task.retry_count, most: task.max_retries })}
        {task.loss_count ? ` · ${t("tasks.losses", { n: task.loss_count })}` : ""}
      </dd>
      {task.timeout && (
        <>
          <dt>{t("tasks.timeout")}</dt>
          <dd>{span(task.timeout)}</dd>
        </>
      )}
      {Object.keys(wishes).length > 0 && (
        <>
          <dt>{t("tasks.wishes")}</dt>
          <dd className="row wrap">
            {Object.entries(wishes).map(([name, value]) => (
              <Chip key={name}>
                {(value as unknown) === true ? name : `${name}: ${JSON.stringify(value)}`}
              </Chip>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

function Progress({ task }: { task: TaskView }) {
  const t = useT();
  if (!task.progress) return null;
  const { done, total } = task.progress;
  return (
    <Card>
      <div className="row between">
        <span className="strong">{t("tasks.progress")}</span>
        <span className="muted">
          {short(done)}
          {total ? ` / ${short(total)}` : ""}
        </span>
      </div>
      {total ? <Meter share={done / total} label={t("tasks.progress")} /> : null}
    </Card>
  );
}

function Waiting({ task }: { task: TaskView }) {
  const t = useT();
  const { path } = usePlace();
  const { summary } = useRetelling();
  const why = useQuery({ ...explanation(task.id), enabled: !isOver(task.status) });
  if (isOver(task.status) || !why.data || task.status === "processing") return null;
  return (
    <div className="notice busy">
      <span className="grow">{summary(why.data)}</span>
      <Link to={`${path}?tab=explain`}>{t("explain.title")}</Link>
    </div>
  );
}

function Failure({ task }: { task: TaskView }) {
  const t = useT();
  const word = useWord();
  if (!task.error) return null;
  return (
    <div className="notice bad stack tight">
      <div>
        <span className="strong">{word("errorClass", task.error.error_class)}</span>{" "}
        <span className="breaks">{task.error.message}</span>
      </div>
      {task.dead_reason && (
        <div className="breaks">
          {t("dead.because")} {task.dead_reason}
        </div>
      )}
      {task.error.details && (
        <pre className="code" tabIndex={0} role="group" aria-label={t("tasks.errorDetails")}>
          {task.error.details}
        </pre>
      )}
    </div>
  );
}

function Summary({ task }: { task: TaskView }) {
  const t = useT();
  return (
    <div className="grid">
      <div className="span-8 stack">
        <Waiting task={task} />
        <Failure task={task} />
        <Progress task={task} />
        {task.expectations && isOver(task.status) && (
          <Card title={t("nav.quality")}>
            <TaskQuality taskId={task.id} />
          </Card>
        )}
        <div className="two">
          <Card title={t("tasks.parameters")}>
            <Json value={task.parameters} label={t("tasks.parameters")} />
          </Card>
          <Card title={t("tasks.result")}>
            {task.result ? (
              <Json value={task.result} label={t("tasks.result")} />
            ) : (
              <p className="muted">{t("tasks.noResult")}</p>
            )}
          </Card>
        </div>
        <Card title={t("copyAs.title")}>
          <CopyAs request={requestOf(task)} />
        </Card>
      </div>
      <div className="span-4 stack">
        <Card title={t("tasks.about")}>
          <Facts task={task} />
        </Card>
        <Card title={t("tasks.timeline")}>
          <Timeline task={task} />
        </Card>
      </div>
    </div>
  );
}

function Log({ task }: { task: TaskView }) {
  const t = useT();
  const [search, change] = useSearch();
  const attempts = useQuery({ ...executions(task.id), refetchInterval: 3000 });
  return (
    <Card>
      <Loaded of={attempts}>
        {({ items }) => {
          const chosen = search.get("execution") ?? items.at(-1)?.id ?? null;
          return (
            <div className="stack tight">
              {items.length > 1 && (
                <select
                  className="select auto"
                  aria-label={t("tasks.attempt")}
                  value={chosen ?? ""}
                  onChange={(event) => change({ execution: event.target.value })}
                >
                  {items.map((each, index) => (
                    <option key={each.id} value={each.id}>
                      {t("tasks.attemptNumber", { n: index + 1 })} · {each.status}
                    </option>
                  ))}
                </select>
              )}
              <LogView executionId={chosen} />
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Shown({ task }: { task: TaskView }) {
  const t = useT();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "summary";
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">
              <Outside text={labelOf(task)} />
            </h1>
            <State family="task" name={task.status} />
            {task.task_type === "web_crawl" && (
              <Link to={`/crawls/${encodeURIComponent(task.id)}`}>{t("crawls.open")}</Link>
            )}
          </>
        }
      >
        <TaskActions task={task} />
      </PageHead>
      <Tabs
        label={t("nav.tasks")}
        current={tab}
        tabs={[
          ["summary", t("tasks.summary")],
          ["explain", t("explain.title")],
          ["log", t("log.title")],
        ]}
      />
      {tab === "explain" ? (
        <Explain id={task.id} />
      ) : tab === "log" ? (
        <Log task={task} />
      ) : (
        <Summary task={task} />
      )}
    </>
  );
}

export default function TaskPage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/tasks/{id}", path)?.id ?? "";
  const found = useQuery(taskQuery(id));
  return (
    <>
      <Crumbs to="/tasks" parent={t("nav.tasks")} />
      <Loaded of={found} rows={10}>
        {(task) => <Shown task={task} />}
      </Loaded>
    </>
  );
}
