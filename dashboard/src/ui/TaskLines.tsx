import { useQuery } from "@tanstack/react-query";
import { type Asked, call } from "../api/client";
import { useT } from "../i18n";
import { Link } from "../lib/router";
import { labelOf } from "../lib/rows";
import { Ago, Loaded } from "./basics";
import { State } from "./State";

type Query = NonNullable<Asked<"/api/v1/tasks", "get">["query"]>;

/** A few tasks, one on a line. */
export function TaskLines({ query, empty }: { query: Query; empty: string }) {
  const t = useT();
  const found = useQuery({
    queryKey: ["tasks", query],
    queryFn: () => call("get", "/api/v1/tasks", { query: { ...query, brief: true } }),
    refetchInterval: 3000,
  });
  return (
    <Loaded of={found}>
      {({ items }) =>
        items.length === 0 ? (
          <p className="empty muted">{empty}</p>
        ) : (
          <div className="table-wrap" role="group" tabIndex={0} aria-label={t("nav.tasks")}>
            <table className="table">
              <tbody>
                {items.map((task) => (
                  <tr key={task.id}>
                    <td>
                      <State family="task" name={task.status} />
                    </td>
                    <td className="cut">
                      <Link to={`/tasks/${task.id}`}>{labelOf(task)}</Link>
                    </td>
                    <td className="muted">{task.task_type}</td>
                    <td className="muted right">
                      <Ago at={task.updated_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Loaded>
  );
}
