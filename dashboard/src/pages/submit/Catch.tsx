/** Selectors, tried on a page by a node: the master itself never reads pages. */
import { useState } from "react";
import { call } from "../../api/client";
import { isOver } from "../../api/queries";
import type { TaskView } from "../../generated/api";
import { useT } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { bytes, count } from "../../lib/format";
import { Link } from "../../lib/router";
import { Chip } from "../../ui/basics";
import { type Item, ItemTable } from "../../ui/ItemTable";
import { Json } from "../../ui/Json";

interface Caught {
  url: string;
  status: number | null;
  bytes: number;
  caught: Record<string, number>;
  items: Item[];
  count: number;
}

export type Outcome =
  | { kind: "none" }
  | { kind: "busy" }
  | { kind: "wrong"; why: string; id?: string }
  | { kind: "done"; caught: Caught };

async function attempt(parameters: Record<string, unknown>): Promise<TaskView> {
  const body = { task_type: "extract", parameters, priority: 10, max_retries: 0, timeout: 60 };
  const receipt = await call("post", "/api/v1/tasks", { body: body as never });
  const path = { task_id: receipt.id };
  let task: TaskView;
  do {
    task = await call("get", "/api/v1/tasks/{task_id}", { path, query: { wait: 30 } });
  } while (!isOver(task.status) && task.status !== "pending");
  return task;
}

/** How the last trial went, and how to begin one. */
export function useTrial(): [Outcome, (parameters: Record<string, unknown>) => Promise<void>] {
  const t = useT();
  const { problem } = useRetelling();
  const [outcome, setOutcome] = useState<Outcome>({ kind: "none" });
  async function begin(parameters: Record<string, unknown>): Promise<void> {
    setOutcome({ kind: "busy" });
    try {
      const task = await attempt(parameters);
      const result = task.result as { data?: Caught } | null | undefined;
      if (task.status === "completed" && result?.data) {
        setOutcome({ kind: "done", caught: result.data });
      } else {
        const why = task.error?.message ?? t("tester.waits");
        setOutcome({ kind: "wrong", why, id: task.id });
      }
    } catch (error) {
      setOutcome({ kind: "wrong", why: problem(error) });
    }
  }
  return [outcome, begin];
}

export function Catch({ outcome }: { outcome: Outcome }) {
  const t = useT();
  if (outcome.kind === "none") return null;
  if (outcome.kind === "busy")
    return (
      <p className="muted" role="status">
        {t("tester.busy")}
      </p>
    );
  if (outcome.kind === "wrong") {
    return (
      <div className="notice bad" role="alert">
        <span className="grow breaks">{outcome.why}</span>
        {outcome.id && <Link to={`/tasks/${outcome.id}`}>{t("palette.task")}</Link>}
      </div>
    );
  }
  const { caught } = outcome;
  return (
    <div className="stack" role="status">
      <div className="row wrap">
        {caught.status ? (
          <Chip tone={caught.status < 400 ? "ok" : "bad"}>HTTP {caught.status}</Chip>
        ) : null}
        <Chip>{bytes(caught.bytes)}</Chip>
        <Chip tone={caught.count ? "ok" : "warn"}>
          {t("tester.items", { n: count(caught.count) })}
        </Chip>
        {Object.entries(caught.caught).map(([name, n]) => (
          <Chip key={name} tone={n ? "busy" : "warn"}>
            {name}: {count(n)}
          </Chip>
        ))}
      </div>
      {caught.items.length > 0 ? (
        <>
          <ItemTable items={caught.items} />
          <details className="group">
            <summary>JSON</summary>
            <Json value={caught.items} label={t("crawls.items")} />
          </details>
        </>
      ) : (
        <p className="muted">{t("tester.nothing")}</p>
      )}
    </div>
  );
}
