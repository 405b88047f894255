/** The sentences of the master in the language of the page; in English as the master says them. */
import { Problem } from "../api/client";
import type { Check, Concern, NodeView, Reason, TaskExplanation, Trouble } from "../generated/api";
import {
  phrasesOf,
  retoldCheck,
  retoldConcern,
  retoldIll,
  retoldReason,
  retoldSummary,
  retoldTrouble,
} from "../lib/retold";
import { type Key, useWords } from ".";
import { en } from "./en";

export interface Retelling {
  summary: (why: TaskExplanation) => string;
  reason: (reason: Reason) => string;
  health: (node: NodeView) => string;
  check: (check: Check) => string;
  concern: (item: Concern) => { message: string; remedy: string };
  trouble: (trouble: Trouble) => { message: string; remedy: string };
  /** What was refused: its kind in the language of the page, and the master's words. */
  problem: (error: unknown) => string;
}

export function useRetelling(): Retelling {
  const { language, t } = useWords();
  const plain = language === "en";
  return {
    summary: (why) => (plain ? why.summary : retoldSummary(why, t)),
    reason: (reason) => (plain ? reason.message : retoldReason(reason, t)),
    health: (node) =>
      plain || !node.conditions?.length
        ? (node.health_reason ?? "")
        : retoldIll(phrasesOf(node.conditions), t),
    check: (check) => (plain ? check.words : retoldCheck(check, t)),
    concern: (item) => (plain ? null : retoldConcern(item, t)) ?? item,
    trouble: (trouble) => (plain ? null : retoldTrouble(trouble, t)) ?? trouble,
    problem: (error) => {
      const said = error instanceof Error ? error.message : String(error);
      if (plain || !(error instanceof Problem)) return said;
      const slug = error.body.type?.replace(/^.*:/, "") ?? "";
      const key = `problem.${slug}`;
      return key in en ? `${t(key as Key)}${t("explain.sum.colon")}${said}` : said;
    },
  };
}
