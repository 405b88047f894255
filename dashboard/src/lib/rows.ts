/** Tasks as rows of a long list: little each, so that a hundred thousand fit. */
import type { TaskView } from "../generated/api";
import type { Patch } from "./fold";

export interface TaskRow {
  id: string;
  label: string;
  type: string;
  status: string;
  priority: number;
  node: string;
  tries: number;
  project: string;
  at: string;
}

/** What a task is about, in a few words: its address, or what else its parameters begin with. */
export function labelOf(task: Pick<TaskView, "id" | "parameters">): string {
  const given = task.parameters as Record<string, unknown> | null;
  if (given && typeof given === "object") {
    for (const name of ["url", "urls", "function", "command", "spider", "name"]) {
      const value = given[name];
      if (typeof value === "string" && value) return value;
      if (Array.isArray(value) && typeof value[0] === "string") {
        return value.length > 1 ? `${value[0]} +${value.length - 1}` : value[0];
      }
    }
    const [first] = Object.entries(given);
    if (first) return `${first[0]} = ${JSON.stringify(first[1])}`.slice(0, 120);
  }
  return task.id;
}

export function rowOf(task: TaskView): TaskRow {
  return {
    id: task.id,
    label: labelOf(task).slice(0, 200),
    type: task.task_type,
    status: task.status,
    priority: task.priority,
    node: task.assigned_node ?? "",
    tries: task.retry_count + (task.loss_count ?? 0),
    project: task.project_id,
    at: task.created_at,
  };
}

/** The rows with news put in; the same array when there is none for them. */
export function patched(rows: TaskRow[], news: ReadonlyMap<string, Patch>): TaskRow[] {
  let changed = false;
  const next = rows.map((row) => {
    const patch = news.get(row.id);
    if (!patch || (patch.status === row.status && (patch.node ?? row.node) === row.node))
      return row;
    changed = true;
    return { ...row, status: patch.status, node: patch.node ?? row.node };
  });
  return changed ? next : rows;
}

/** Newer rows before those that are known, each once. */
export function merged(newer: readonly TaskRow[], known: readonly TaskRow[]): TaskRow[] {
  const fresh = new Map(newer.map((row) => [row.id, row]));
  const rest: TaskRow[] = [];
  for (const row of known) {
    const again = fresh.get(row.id);
    if (!again) rest.push(row);
  }
  return [...fresh.values(), ...rest].sort((a, b) => (a.id < b.id ? 1 : -1));
}
