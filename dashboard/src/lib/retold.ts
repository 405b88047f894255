/**
 * The sentences of the master, written anew from what they are made of: a stable word, and values.
 * What is new to the page stays as the master says it.
 */
import type {
  Cause,
  Check,
  Concern,
  ConditionView,
  Phrase,
  Reason,
  TaskExplanation,
  Trouble,
} from "../generated/api";
import type { Key, Translate, Values } from "../i18n";
import { en } from "../i18n/en";
import { percent, short, span } from "./format";

function keyed(name: string): Key | null {
  return name in en ? (name as Key) : null;
}

function worded(t: Translate, family: string, name: unknown): string {
  const key = keyed(`${family}.${String(name)}`);
  return key ? t(key) : String(name);
}

export function retoldCauses(causes: readonly Cause[], t: Translate): string {
  return causes
    .map(({ code, nodes: n }) => {
      const key = keyed(`lack.${code}`);
      return key ? t(key, { n }) : t("lack.other", { n, filter: code });
    })
    .join(t("explain.sum.and"));
}

/** Why a task does (not) run. */
export function retoldSummary(why: TaskExplanation, t: Translate): string {
  const { placement } = why;
  if (why.status === "paused") return t("explain.sum.paused");
  if (why.status === "waiting") return t("explain.sum.waiting");
  if (why.ready_at) return t("explain.sum.delayed");
  if (!placement) return why.summary;
  if (placement.nodes === 0) return t("explain.sum.noNodes");
  if (placement.feasible) {
    return t("explain.sum.feasible", { n: placement.feasible_nodes, all: placement.nodes });
  }
  const causes = placement.causes ?? [];
  if (causes.length === 0) return why.summary;
  const none = t("explain.sum.none", { all: placement.nodes, why: retoldCauses(causes, t) });
  if (causes.every((cause) => cause.lasting)) return `${none} ${t("explain.sum.lasting")}`;
  const busy = causes.every((cause) => cause.code === "resources");
  return busy ? `${none} ${t("explain.sum.busy")}` : none;
}

const SHARES = new Set(["cpu", "memory", "errors"]);

function measured(kind: string, value: number): string {
  if (SHARES.has(kind)) return percent(value);
  return kind === "disk" ? `${short(Math.round(value))} MB` : span(value);
}

/** What is wrong with a node. */
export function retoldIll(phrases: readonly Phrase[], t: Translate): string {
  return phrases
    .map(({ code, values = {} }) => {
      const key = keyed(`ill.${code}`);
      const { value, limit, words } = values;
      if (!key || value === undefined || limit === undefined) {
        return code === "probe" ? t("ill.probe", { words: words ?? "" }) : String(words ?? code);
      }
      return t(key, {
        value: measured(code, Number(value)),
        limit: measured(code, Number(limit)),
      });
    })
    .join(t("explain.sum.semicolon"));
}

export function phrasesOf(conditions: readonly ConditionView[]): Phrase[] {
  return conditions.map(({ kind, reason, value, limit }) => ({
    code: kind,
    values: value == null || limit == null ? { words: reason } : { value, limit },
  }));
}

/** What speaks against one node. */
export function retoldReason(reason: Reason, t: Translate): string {
  const key = reason.code ? keyed(`reason.${reason.code}`) : null;
  if (!key) return reason.message;
  const values: Values = { ...(reason.values ?? {}) };
  if (reason.code === "not_online") values.status = worded(t, "node", values.status);
  if (reason.code === "not_healthy") {
    values.health = worded(t, "health", values.health);
    const ill = retoldIll(reason.because ?? [], t);
    return ill ? `${t(key, values)}${t("explain.sum.colon")}${ill}` : t(key, values);
  }
  if (reason.filter === "resources") values.name = worded(t, "resource", values.name);
  if (values.has === "none") values.has = t("reason.none");
  return t(key, values);
}

/** What ought to be looked at, and what to do about it; nothing where the page has no words. */
export function retoldConcern(
  item: Concern,
  t: Translate,
): { message: string; remedy: string } | null {
  const several = keyed(`concern.${item.kind}`);
  const remedy = keyed(`remedy.${item.kind}`);
  if (!several || !remedy) return null;
  const values: Values = { n: item.count ?? 1, ...(item.values ?? {}) };
  if (values.waited_s !== undefined) values.waited = span(Number(values.waited_s));
  if (values.free !== undefined) values.free = percent(Number(values.free));
  if (values.error_class) values.error_class = worded(t, "errorClass", values.error_class);
  const one = Object.keys(item.values ?? {}).length > 0 ? keyed(`concern.${item.kind}.one`) : null;
  const said = t(one ?? several, values);
  const because = item.because ?? [];
  const why = item.kind.startsWith("node_")
    ? retoldIll(because, t)
    : retoldCauses(
        because.map(({ code, values: each }) => ({
          code,
          nodes: Number(each?.n ?? 0),
          lasting: true,
        })),
        t,
      );
  return {
    message: why ? `${said}${t("explain.sum.colon")}${why}` : said,
    remedy: t(remedy),
  };
}

/** What is not as it should be in a cluster. */
export function retoldTrouble(
  trouble: Trouble,
  t: Translate,
): { message: string; remedy: string } | null {
  const message = keyed(`trouble.${trouble.kind}`);
  const remedy = keyed(`trouble.${trouble.kind}.remedy`);
  if (!message || !remedy) return null;
  const values: Values = { ...(trouble.values ?? {}) };
  if (values.waited_s !== undefined) values.waited = span(Number(values.waited_s));
  if (values.status !== undefined) values.status = worded(t, "condition", values.status);
  return { message: t(message, values), remedy: t(remedy, values) };
}

const COUNTS = new Set(["items", "pages"]);
const OF_VALUES = new Set(["type", "pattern", "min", "max"]);

/** What was measured against an expectation, and which values are as expected. */
export function retoldCheck(check: Check, t: Translate): string {
  const { name, measured, min, max } = check;
  const drift = name.startsWith("drift.");
  const earlier = name.startsWith("drift.earlier.");
  const path = name.replace(/^drift\.(earlier\.)?/, "");
  const [, field = "", last = path] = /^fields\.(.+)\.(\w+)$/.exec(path) ?? [];
  const key = keyed(`check.${OF_VALUES.has(last) ? "fits" : last}`);
  if (!key || measured == null) return check.words;
  const counted = COUNTS.has(path) || (drift && last === "distinct");
  const shown = (value: number) => (counted ? short(Math.round(value)) : percent(value));
  const told = t(earlier ? "check.earlier" : drift ? "check.drift" : "check.told", {
    what: t(key, { field }),
    value: shown(measured),
  });
  if (min != null && max != null) {
    return told + t("check.both", { low: shown(min), high: shown(max) });
  }
  if (min != null) return told + t("check.min", { limit: shown(min) });
  return max == null ? told : told + t("check.max", { limit: shown(max) });
}
