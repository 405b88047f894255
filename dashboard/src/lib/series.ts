import type { Series } from "../generated/api";

/** States of work that is not over, in the order in which they are drawn. */
export const IN_HAND = ["processing", "assigned", "pending", "waiting", "paused"] as const;

export interface Columns {
  at: number[];
  states: Record<(typeof IN_HAND)[number], number[]>;
  finished: number[];
  failed: number[];
  pages: number[];
  age: number[];
}

/** Points as columns for drawing, with amounts per step as amounts per second. */
export function columns(series: Series): Columns {
  const { points, step_s } = series;
  const per = (amount: number) => amount / step_s;
  const states = Object.fromEntries(
    IN_HAND.map((state) => [state, points.map((point) => point.tasks[state] ?? 0)]),
  ) as Columns["states"];
  return {
    at: points.map((point) => Date.parse(point.at) / 1000),
    states,
    finished: points.map((point) => per(point.finished)),
    failed: points.map((point) => per(point.failed)),
    pages: points.map((point) => per(point.pages)),
    age: points.map((point) => point.queue_age_s ?? 0),
  };
}

/** Attempts that did not succeed in these points, by the class of their error, most first. */
export function errorClasses(series: Series): [string, number][] {
  const sums = new Map<string, number>();
  for (const point of series.points) {
    for (const [name, amount] of Object.entries(point.errors)) {
      sums.set(name, (sums.get(name) ?? 0) + amount);
    }
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** The mean of the last few values, so that a figure does not flicker. */
export function recent(values: readonly number[], most = 3): number {
  const last = values.slice(-most);
  return last.length ? last.reduce((sum, each) => sum + each, 0) / last.length : 0;
}
