import type { EventView, ExecutionView } from "../generated/api";

export interface Step {
  seq: number;
  state: string;
  at: string;
  cause: string;
  /** Which attempt it belongs to, from 1. */
  attempt: number | null;
  node: string | null;
  /** How long after the step before. */
  afterS: number;
}

/** The events of a task as steps, oldest first. */
export function timeline(
  events: readonly EventView[],
  attempts: readonly Pick<ExecutionView, "id">[],
): Step[] {
  const numbers = new Map(attempts.map((each, index) => [each.id, index + 1]));
  let before: number | null = null;
  return events.map((event) => {
    const at = Date.parse(event.at);
    const afterS = before === null ? 0 : (at - before) / 1000;
    before = at;
    const { execution_id: execution, node_id: node } = (event.details ?? {}) as Record<
      string,
      unknown
    >;
    return {
      seq: event.seq,
      state: event.to_state ?? event.kind.replace(/^task\./, ""),
      at: event.at,
      cause: event.cause,
      attempt: typeof execution === "string" ? (numbers.get(execution) ?? null) : null,
      node: typeof node === "string" ? node : null,
      afterS,
    };
  });
}
