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

/** Where a task stands, of rows that begin with the newest: ids grow with time. */
function placeOf(rows: readonly TaskRow[], id: string): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as TaskRow).id > id) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The rows with news put in; the same array when there is none for them. */
export function patched(rows: TaskRow[], news: ReadonlyMap<string, Patch>): TaskRow[] {
  let next: TaskRow[] | null = null;
  for (const [id, patch] of news) {
    const at = placeOf(rows, id);
    const row = rows[at];
    if (row?.id !== id) continue;
    if (patch.status === row.status && (patch.node ?? row.node) === row.node) continue;
    next ??= [...rows];
    next[at] = { ...row, status: patch.status, node: patch.node ?? row.node };
  }
  return next ?? rows;
}

/** The rows that are still in one of these states; the same array when all are. */
export function within(rows: TaskRow[], states: readonly string[]): TaskRow[] {
  if (states.length === 0 || rows.every((row) => states.includes(row.status))) return rows;
  return rows.filter((row) => states.includes(row.status));
}

/** A page put to the rows that are known: newest first, each once, with its newer state. */
export function merged(page: readonly TaskRow[], known: readonly TaskRow[]): TaskRow[] {
  const last = known.at(-1)?.id;
  const isOlder = last === undefined || page.every((row) => row.id < last);
  if (isOlder) return [...known, ...page];
  const fresh = new Set(page.map((row) => row.id));
  // Ids grow with time, so that the newest page reaches only into the begin of what is known.
  const end = page.at(-1)?.id ?? "";
  const cut = known.findIndex((row) => row.id < end);
  const [near, far] = cut < 0 ? [known, []] : [known.slice(0, cut), known.slice(cut)];
  const both = [...page, ...near.filter((row) => !fresh.has(row.id))];
  return [...both.sort((a, b) => (a.id < b.id ? 1 : -1)), ...far];
}
