import { useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { useT } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { brokenChecks, seriesPath } from "../../lib/quality";
import { Link } from "../../lib/router";
import { State } from "../../ui/State";
import { Decide } from "./Decide";

/** What was measured of a task that has ended; nothing where nothing is expected of it. */
export function TaskQuality({ taskId }: { taskId: string }) {
  const t = useT();
  const { check } = useRetelling();
  const found = useQuery({
    queryKey: ["quality", "task", taskId],
    queryFn: () => call("get", "/api/v1/tasks/{task_id}/quality", { path: { task_id: taskId } }),
    retry: false,
  });
  const run = found.data?.items[0];
  if (!run) return null;
  return (
    <div className="stack tight">
      <div className="row between wrap">
        <State family="measured" name={run.decision === "held" ? "held" : run.verdict} />
        <Decide run={run} />
      </div>
      {brokenChecks(run).map((each) => (
        <div key={each.name} className="notice warn breaks">
          {check(each)}
        </div>
      ))}
      <Link to={seriesPath(run.project_id, run.series)}>{t("quality.history")}</Link>
    </div>
  );
}
