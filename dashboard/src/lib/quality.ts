/** What was measured of the runs of a series, put together for those who look back. */
import type { Check, MeasuredRunView } from "../generated/api";

/** The share of items without a value in a field; nothing where there was nothing to measure. */
export function emptyShare(run: MeasuredRunView, field: string): number | null {
  const measured = run.fields[field];
  if (!measured || !run.items) return null;
  return Math.min(1, Math.max(0, 1 - measured.filled / run.items));
}

/** The fields that any of the runs has; those first that are emptiest in the newest one. */
export function fieldsOf(newestFirst: readonly MeasuredRunView[]): string[] {
  const names = [...new Set(newestFirst.flatMap((run) => Object.keys(run.fields)))];
  const [newest] = newestFirst;
  const empty = (name: string) => (newest ? (emptyShare(newest, name) ?? -1) : -1);
  return names.sort((a, b) => empty(b) - empty(a) || a.localeCompare(b));
}

/** Whether somebody has to say what becomes of it. */
export function isHeld(run: MeasuredRunView): boolean {
  return run.decision === "held";
}

export function isOff(run: MeasuredRunView): boolean {
  return run.verdict !== "ok";
}

export function brokenChecks(run: MeasuredRunView): Check[] {
  return run.checks.filter((each) => each.outcome === "broken");
}

export function seriesPath(project: string, series: string): string {
  return `/quality?series=${encodeURIComponent(series)}&project=${encodeURIComponent(project)}`;
}
