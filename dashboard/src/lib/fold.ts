/** Many events folded into the little that a view has to change. */
import type { EventView } from "../generated/api";

export interface Patch {
  status: string;
  node?: string;
  at: string;
}

export interface Fold {
  /** The newest state of each task that was heard of. */
  tasks: Map<string, Patch>;
  /** Tasks that were made. */
  born: number;
  /** What else changed: nodes, keys, projects, ... */
  others: Set<string>;
}

export function fold(events: readonly EventView[]): Fold {
  const folded: Fold = { tasks: new Map(), born: 0, others: new Set() };
  for (const event of events) {
    const dot = event.kind.indexOf(".");
    const family = dot < 0 ? event.kind : event.kind.slice(0, dot);
    if (family !== "task") {
      folded.others.add(family);
      continue;
    }
    if (!event.to_state) continue;
    if (!event.from_state) folded.born += 1;
    const node = event.details?.node_id;
    const before = folded.tasks.get(event.subject);
    folded.tasks.set(event.subject, {
      status: event.to_state,
      at: event.at,
      ...(typeof node === "string" ? { node } : before?.node ? { node: before.node } : {}),
    });
  }
  return folded;
}

/** The last `most` of what was there and what came. */
export function appended<T>(before: readonly T[], more: readonly T[], most: number): T[] {
  if (more.length >= most) return more.slice(-most);
  return [...before.slice(Math.max(0, before.length + more.length - most)), ...more];
}
