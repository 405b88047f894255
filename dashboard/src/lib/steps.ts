/** How the steps of a run stand, put together for what draws them. */
import type { RunStepView, WorkflowDocument } from "../generated/api";
import type { Before, On } from "./graph";
import type { Values } from "./schema";

/** What a drawing needs of a step, in a run or in a document. */
export interface Shown {
  name: string;
  status: string;
  task_type: string;
  after: readonly Before[];
  spreads: boolean;
  optional: boolean;
  /** Whether it has a condition of its own. */
  asks: boolean;
  count: number;
  done: number | null;
  undone: number | null;
}

/** More steps than this are shown as a list. */
export const MOST_DRAWN = 500;
/** From so many steps on, those that are alike are drawn as one. */
export const GROUPED_FROM = 30;

const LIVE = new Set(["running", "cancelling"]);
/** The states of steps in the order in which people want to hear of them. */
export const STEP_STATES = [
  "failed",
  "held",
  "running",
  "waiting",
  "cancelled",
  "completed",
  "skipped",
] as const;
export const RUN_STATES = ["running", "cancelling", "completed", "failed", "cancelled"] as const;

export function isLive(status: string | undefined): boolean {
  return status !== undefined && LIVE.has(status);
}

export function shownStep(step: RunStepView, asks = false): Shown {
  return {
    name: step.name,
    status: step.status,
    task_type: step.task_type,
    after: step.depends_on.map((each) => ({ step: each.step, on: each.on ?? "success" })),
    spreads: step.for_each,
    optional: step.optional,
    asks,
    count: step.count,
    done: step.done ?? null,
    undone: step.undone ?? null,
  };
}

/** The steps of a document, none of which has begun. */
export function plannedSteps(document: WorkflowDocument): Shown[] {
  return Object.entries(document.steps).map(([name, step]) => ({
    name,
    status: "planned",
    task_type: step.task_type,
    after: (step.depends_on ?? []).map((each) =>
      typeof each === "string"
        ? { step: each, on: "success" }
        : { step: each.step, on: each.on ?? "success" },
    ),
    spreads: step.for_each !== null && step.for_each !== undefined,
    optional: step.optional ?? false,
    asks: Boolean(step.when),
    count: 0,
    done: 0,
    undone: 0,
  }));
}

/** What a group has come to: what most needs to be looked at. */
export function worst(statuses: readonly string[]): string {
  return STEP_STATES.find((state) => statuses.includes(state)) ?? statuses[0] ?? "waiting";
}

export function tally(statuses: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const each of statuses) counts.set(each, (counts.get(each) ?? 0) + 1);
  return counts;
}

const ENDED = new Set(["completed", "failed", "skipped", "cancelled"]);

/** Whether an edge may still be taken, was taken, or cannot be any more. */
export function edgeState(on: On, status: string): "open" | "taken" | "barred" {
  if (!ENDED.has(status)) return "open";
  const met = on === "always" || (on === "success" ? status === "completed" : status === "failed");
  return met ? "taken" : "barred";
}

export interface Progress {
  of: number;
  done: number;
  undone: number;
}

/** How far the instances of a step are; nothing where there is but one, or none yet. */
export function progressOf(step: Shown): Progress | null {
  if (!step.spreads || step.count === 0 || step.done === null) return null;
  return { of: step.count, done: step.done, undone: step.undone ?? 0 };
}

/** How far the members of a group are. */
export function progressOfGroup(statuses: readonly string[]): Progress {
  const counts = tally(statuses);
  const undone = (counts.get("failed") ?? 0) + (counts.get("cancelled") ?? 0);
  const ended = statuses.filter((each) => ENDED.has(each)).length;
  return { of: statuses.length, done: ended - undone, undone };
}

/** A text that fits into so many letters; Chinese ones count twice. */
export function fitted(text: string, letters: number): string {
  let room = letters;
  let end = 0;
  for (const letter of text) {
    room -= letter > "\u2e80" ? 2 : 1;
    if (room < 0) return `${text.slice(0, Math.max(0, end - 1))}…`;
    end += letter.length;
  }
  return text;
}

/** The steps that follow a step, and all that follow those. */
export function downstream(
  steps: readonly { name: string; after: readonly Before[] }[],
  from: string,
): string[] {
  const found = new Set([from]);
  for (let grew = true; grew; ) {
    grew = false;
    for (const { name, after } of steps) {
      if (found.has(name) || !after.some(({ step }) => found.has(step))) continue;
      found.add(name);
      grew = true;
    }
  }
  found.delete(from);
  return [...found];
}

/** The parameters of a document as the schema of a form. */
export function parameterSchema(document: WorkflowDocument): Record<string, unknown> {
  const types: Record<string, unknown> = {
    text: { type: "string" },
    number: { type: "number" },
    integer: { type: "integer" },
    flag: { type: "boolean" },
  };
  const declared = Object.entries(document.parameters ?? {});
  return {
    type: "object",
    required: declared.filter(([, each]) => !("default" in each)).map(([name]) => name),
    properties: Object.fromEntries(
      declared.map(([name, each]) => [
        name,
        {
          ...((types[each.type ?? "any"] as object | undefined) ?? {}),
          description: each.description ?? "",
          ...("default" in each ? { default: each.default } : {}),
        },
      ]),
    ),
  };
}

/** What is sent: what was filled in, so that the document's defaults hold for the rest. */
export function givenParameters(document: WorkflowDocument, values: Values): Values {
  const found: Values = {};
  for (const [name, each] of Object.entries(document.parameters ?? {})) {
    const value = values[name];
    if (value !== undefined && value !== "") found[name] = value;
    else if (each.type === "flag" && !("default" in each)) found[name] = false;
  }
  return found;
}
