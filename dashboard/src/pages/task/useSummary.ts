import type { TaskExplanation } from "../../generated/api";
import { type Key, type Translate, useWords } from "../../i18n";
import { en } from "../../i18n/en";

function lack(t: Translate, filter: string, n: number): string {
  const key = `lack.${filter}`;
  return key in en ? t(key as Key, { n }) : t("lack.other", { n, filter });
}

/** The sentence of the master, put together anew from what it is made of. */
export function retold(why: TaskExplanation, t: Translate): string {
  const { placement } = why;
  if (why.status === "paused") return t("explain.sum.paused");
  if (why.status === "waiting") return t("explain.sum.waiting");
  if (why.ready_at) return t("explain.sum.delayed");
  if (!placement) return why.summary;
  if (placement.nodes === 0) return t("explain.sum.noNodes");
  if (placement.feasible) {
    return t("explain.sum.feasible", { n: placement.feasible_nodes, all: placement.nodes });
  }
  const rejected = Object.entries(placement.rejected).sort((a, b) => b[1] - a[1]);
  const reasons = rejected.map(([filter, n]) => lack(t, filter, n)).join(t("explain.sum.and"));
  const none = t("explain.sum.none", { all: placement.nodes, why: reasons });
  const busy = rejected.length === 1 && rejected[0]?.[0] === "resources";
  return busy ? `${none} ${t("explain.sum.busy")}` : none;
}

/** Why a task does (not) run, in the language of the page where that can be said. */
export function useSummary(): (why: TaskExplanation) => string {
  const { language, t } = useWords();
  return (why) => (language === "en" ? why.summary : retold(why, t));
}
