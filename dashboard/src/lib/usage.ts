/** What projects have used, step by step, for a chart and a table. */
import type { UsageItem, UsageReport } from "../generated/api";
import { bytes, short, span } from "./format";

export const METRICS = [
  "pages",
  "bytes",
  "completed",
  "failed",
  "attempts",
  "cpu_s",
  "run_s",
  "peak_running",
  "peak_waiting",
  "storage_bytes",
] as const;
export type Metric = (typeof METRICS)[number];
const STEP_S = { hour: 3600, day: 86_400 } as const;
/** Of these the largest or the last counts; all others are added up. */
const PEAKS: ReadonlySet<Metric> = new Set(["peak_running", "peak_waiting", "storage_bytes"]);

const BYTES: ReadonlySet<Metric> = new Set(["bytes", "storage_bytes"]);
const TIMES: ReadonlySet<Metric> = new Set(["cpu_s", "run_s"]);

/** Whether it is a number of things, of which there are no halves. */
export function isCounted(metric: Metric): boolean {
  return !BYTES.has(metric) && !TIMES.has(metric);
}

export function told(metric: Metric, value: number): string {
  if (BYTES.has(metric)) return bytes(value);
  return TIMES.has(metric) ? span(value) : short(value);
}

export interface UsageLine {
  project: string;
  values: (number | null)[];
}

/** What was used in all, by project; those first who used most. */
export function totals(items: readonly UsageItem[], metric: Metric): [string, number][] {
  const sums = new Map<string, number>();
  for (const item of items) {
    const value = item[metric] ?? 0;
    const before = sums.get(item.project_id) ?? 0;
    sums.set(item.project_id, PEAKS.has(metric) ? Math.max(before, value) : before + value);
  }
  return [...sums].sort(([a, x], [b, y]) => y - x || a.localeCompare(b));
}

/** A line for each of the projects that used most, and one for all others together. */
export function usageLines(
  report: UsageReport,
  metric: Metric,
  most: number,
): { at: number[]; lines: UsageLine[]; others: UsageLine | null } {
  const step = STEP_S[report.step];
  const from = Date.parse(report.since) / 1000;
  const until = Date.parse(report.until) / 1000;
  const at: number[] = [];
  for (let instant = from; instant < until; instant += step) at.push(instant);
  const places = new Map(at.map((instant, index) => [instant, index]));
  const named = totals(report.items, metric)
    .slice(0, most)
    .map(([project]) => project);
  const rows = new Map<string, number[]>();
  const others = at.map(() => 0);
  let more = false;
  for (const project of named) {
    rows.set(
      project,
      at.map(() => 0),
    );
  }
  for (const item of report.items) {
    const place = places.get(Date.parse(item.at) / 1000);
    if (place === undefined) continue;
    const row = rows.get(item.project_id);
    more ||= row === undefined;
    const into = row ?? others;
    into[place] = (into[place] ?? 0) + (item[metric] ?? 0);
  }
  return {
    at,
    lines: named.map((project) => ({ project, values: rows.get(project) ?? [] })),
    others: more ? { project: "", values: others } : null,
  };
}
