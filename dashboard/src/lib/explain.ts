import type { Explanation } from "../generated/api";

/** The filters in the order in which the master asks them; those of plug-ins come before the last. */
const FIRST = [
  "status",
  "health",
  "cluster",
  "task_type",
  "node_type",
  "protocol",
  "capabilities",
  "reservation",
];
const LAST = "resources";

export function filtersOf(placement: Explanation): string[] {
  const named = new Set(Object.keys(placement.rejected));
  for (const node of placement.details) {
    for (const reason of node.reasons ?? []) named.add(reason.filter);
  }
  const others = [...named].filter((name) => !FIRST.includes(name) && name !== LAST).sort();
  return [...FIRST, ...others, LAST];
}

export interface Step {
  filter: string;
  rejected: number;
  left: number;
}

/** How many nodes each filter takes away, and how many are left after it. */
export function funnel(placement: Explanation): Step[] {
  let left = placement.nodes;
  return filtersOf(placement).map((filter) => {
    const rejected = placement.rejected[filter] ?? 0;
    left -= rejected;
    return { filter, rejected, left: Math.max(0, left) };
  });
}
