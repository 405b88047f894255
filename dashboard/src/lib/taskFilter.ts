/** The filter of the task list, as the address has it and as the API wants it. */
export const STATES = [
  "pending",
  "assigned",
  "processing",
  "paused",
  "waiting",
  "completed",
  "failed",
  "timeout",
  "cancelled",
] as const;
export type TaskState = (typeof STATES)[number];

export interface TaskFilter {
  status?: string;
  project_id?: string;
  task_type?: string;
  workflow_id?: string;
  assigned_node?: string;
  dead?: boolean;
}

const NAMES = {
  project: "project_id",
  type: "task_type",
  workflow: "workflow_id",
  node: "assigned_node",
} as const;

export function statesOf(search: URLSearchParams): TaskState[] {
  const given = new Set((search.get("status") ?? "").split(","));
  return STATES.filter((state) => given.has(state));
}

export function taskFilter(search: URLSearchParams): TaskFilter {
  const filter: TaskFilter = {};
  const states = statesOf(search);
  if (states.length > 0) filter.status = states.join(",");
  for (const [short, name] of Object.entries(NAMES)) {
    const value = search.get(short);
    if (value) filter[name as (typeof NAMES)[keyof typeof NAMES]] = value;
  }
  if (search.get("dead") === "true") filter.dead = true;
  return filter;
}

/** The same filter in the body of an order about many tasks. */
export function selectionOf(filter: TaskFilter) {
  const { status, ...rest } = filter;
  return { ...rest, ...(status ? { status: status.split(",") as TaskState[] } : {}) };
}

/** A state put in or taken out of the address. */
export function toggled(search: URLSearchParams, state: TaskState): string {
  const states = statesOf(search);
  const next = states.includes(state)
    ? states.filter((each) => each !== state)
    : [...states, state];
  return STATES.filter((each) => next.includes(each)).join(",");
}
