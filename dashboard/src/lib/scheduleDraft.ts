/** A schedule while somebody writes it: texts as they are typed, and what is sent of them. */
import type { ScheduleView } from "../generated/api";

export interface Draft {
  name: string;
  description: string;
  kind: "cron" | "every";
  cron: string;
  /** A number and its unit, as `15` and `60` for minutes. */
  every: string;
  unit: string;
  zone: string;
  coalesce: boolean;
  grace: string;
  most: string;
  overlap: "skip" | "queue";
  jitter: string;
}

export const UNITS = ["1", "60", "3600", "86400"] as const;

export function newDraft(zone: string): Draft {
  return {
    name: "",
    description: "",
    kind: "cron",
    cron: "30 2 * * *",
    every: "15",
    unit: "60",
    zone,
    coalesce: true,
    grace: "",
    most: "1",
    overlap: "skip",
    jitter: "",
  };
}

/** The largest unit in which an interval is a whole number. */
function parted(seconds: number): { every: string; unit: string } {
  const unit = [...UNITS].reverse().find((each) => seconds % Number(each) === 0) ?? "1";
  return { every: String(seconds / Number(unit)), unit };
}

export function draftOf(schedule: ScheduleView): Draft {
  return {
    ...newDraft(schedule.time_zone),
    name: schedule.name,
    description: schedule.description,
    kind: schedule.every_s ? "every" : "cron",
    ...(schedule.cron ? { cron: schedule.cron } : {}),
    ...(schedule.every_s ? parted(schedule.every_s) : {}),
    coalesce: schedule.coalesce,
    grace: schedule.misfire_grace_s ? String(schedule.misfire_grace_s) : "",
    most: String(schedule.max_instances),
    overlap: schedule.overlap === "queue" ? "queue" : "skip",
    jitter: schedule.jitter_s ? String(schedule.jitter_s) : "",
  };
}

/** The rule alone, as a preview takes it. */
export function timing(draft: Draft): { cron: string } | { every_s: number } {
  return draft.kind === "cron"
    ? { cron: draft.cron.trim() }
    : { every_s: Number(draft.every) * Number(draft.unit) };
}

/** All that is sent, but for the name and the task; what was left empty is taken back. */
export function rule(draft: Draft) {
  const other = draft.kind === "cron" ? { every_s: null } : { cron: null };
  return {
    ...other,
    ...timing(draft),
    time_zone: draft.zone,
    description: draft.description,
    coalesce: draft.coalesce,
    misfire_grace_s: draft.grace ? Number(draft.grace) : null,
    max_instances: Number(draft.most),
    overlap: draft.overlap,
    jitter_s: Number(draft.jitter || 0),
  };
}
