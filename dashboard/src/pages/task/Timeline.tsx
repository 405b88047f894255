import { useQuery } from "@tanstack/react-query";
import { executions, taskEvents } from "../../api/queries";
import type { TaskView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { span } from "../../lib/format";
import { Link } from "../../lib/router";
import { timeline } from "../../lib/timeline";
import { Clock, Loaded } from "../../ui/basics";
import { Mark } from "../../ui/State";

/** Every change of state with its cause, and the attempt that it belongs to. */
export function Timeline({ task }: { task: TaskView }) {
  const t = useT();
  const word = useWord();
  const events = useQuery(taskEvents(task.id));
  const attempts = useQuery(executions(task.id));
  return (
    <Loaded of={events}>
      {({ items }) => (
        <ol className="timeline">
          {timeline(items, attempts.data?.items ?? []).map((step) => (
            <li key={step.seq}>
              <span className="dot">
                <Mark family="task" name={step.state} />
              </span>
              <div className="row between">
                <span className="strong">
                  {word("task", step.state)}
                  {step.attempt && (
                    <span className="muted small">
                      {" "}
                      {t("tasks.attemptNumber", { n: step.attempt })}
                    </span>
                  )}
                </span>
                <span className="muted small">
                  <Clock at={step.at} />
                </span>
              </div>
              <div className="muted small breaks">
                {step.cause}
                {step.node && (
                  <>
                    {" · "}
                    <Link to={`/nodes/${encodeURIComponent(step.node)}`}>{t("tasks.node")}</Link>
                  </>
                )}
              </div>
              {step.afterS >= 0.01 && (
                <div className="muted small">{t("tasks.after", { span: span(step.afterS) })}</div>
              )}
            </li>
          ))}
        </ol>
      )}
    </Loaded>
  );
}
