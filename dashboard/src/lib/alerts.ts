/** Rules for alerts in the forms that people read and fill in. */
import type { AlertPatch, AlertRequest, AlertView } from "../generated/api";
import { interval, percent, short } from "./format";

export const SOURCES = [
  "nodes_lost",
  "nodes_online",
  "queue_age_s",
  "queue_length",
  "error_share",
  "disk_free",
  "events",
] as const;
export const SEVERITIES = ["info", "warning", "critical"] as const;
export type Direction = "above" | "below";
const SHARES = new Set(["error_share", "disk_free"]);
const WINDOWED = new Set(["error_share", "events"]);
const URGENCY: Record<string, number> = { critical: 0, warning: 1, info: 2 };

export function isShare(source: string): boolean {
  return SHARES.has(source);
}

/** Whether a rule looks back over a stretch of time. */
export function hasWindow(source: string): boolean {
  return WINDOWED.has(source);
}

/** A value of what a rule watches, as people say it. */
export function shownValue(source: string, value: number): string {
  if (isShare(source)) return percent(value);
  return source === "queue_age_s" ? interval(Math.round(value)) : short(value);
}

export function limitOf(alert: Pick<AlertView, "above" | "below">): [Direction, number] {
  return alert.above !== null ? ["above", alert.above] : ["below", alert.below ?? 0];
}

export function stateOf(alert: Pick<AlertView, "is_on" | "status">): "off" | "firing" | "quiet" {
  if (!alert.is_on) return "off";
  return alert.status === "firing" ? "firing" : "quiet";
}

/** Whether nobody is told of it: all of it is silenced, or each thing that it is about. */
export function isSilenced({ silences, subjects }: AlertView): boolean {
  if (silences.some((each) => each.subject === "")) return true;
  const silent = new Set(silences.map((each) => each.subject));
  return subjects.length > 0 && subjects.every((each) => silent.has(each));
}

/** What fires first, the most severe before the others; then by name. */
export function sorted(alerts: readonly AlertView[]): AlertView[] {
  const rank = (each: AlertView) => ({ firing: 0, quiet: 1, off: 2 })[stateOf(each)];
  return [...alerts].sort(
    (a, b) =>
      rank(a) - rank(b) ||
      (rank(a) === 0 ? (URGENCY[a.severity] ?? 3) - (URGENCY[b.severity] ?? 3) : 0) ||
      a.name.localeCompare(b.name),
  );
}

function numberOf(text: string | undefined): number | undefined {
  return text?.trim() ? Number(text) : undefined;
}

function limited(values: Record<string, string>): { above: number } | { below: number } {
  const limit = Number(values.limit);
  return values.direction === "below" ? { below: limit } : { above: limit };
}

type Severity = NonNullable<AlertPatch["severity"]>;

function common(values: Record<string, string>, source: string) {
  const [forS, clearS, window] = [values.for_s, values.clear_s, values.window_s].map(numberOf);
  return {
    ...(forS === undefined ? {} : { for_s: forS }),
    ...(clearS === undefined ? {} : { clear_s: clearS }),
    ...(window === undefined || !hasWindow(source) ? {} : { window_s: window }),
    severity: (values.severity ?? "warning") as Severity,
    description: values.description ?? "",
  };
}

/** What a form changes of a rule; an empty field of `clear_at` is the limit itself. */
export function patchOf(alert: AlertView, values: Record<string, string>): AlertPatch {
  return {
    ...limited(values),
    clear_at: numberOf(values.clear_at) ?? null,
    ...common(values, alert.source),
  };
}

/** The rule that a form describes. */
export function requestOf(values: Record<string, string>): AlertRequest {
  const source = values.source ?? "events";
  const clearAt = numberOf(values.clear_at);
  return {
    name: values.name?.trim() ?? "",
    source: source as AlertRequest["source"],
    ...limited(values),
    ...(clearAt === undefined ? {} : { clear_at: clearAt }),
    ...(source === "events" ? { event: values.event?.trim() ?? "" } : {}),
    ...(values.project_id && hasWindow(source) ? { project_id: values.project_id } : {}),
    ...common(values, source),
  };
}
