/** What the fields of forms are called, and what is said about them. */
import { queryOptions } from "@tanstack/react-query";
import type { Language } from "../../i18n";
import english from "../../i18n/fields/en.json";
import type { FormField } from "../../lib/schema";

export interface FieldWords {
  label: string;
  /** What it is for; in English the schema's own description, where this says nothing. */
  hint?: string;
  placeholder?: string;
  /** Of the names in a map; `placeholder` is that of its values. */
  namePlaceholder?: string;
  unit?: string;
  choices?: Record<string, string>;
}

export type Glossary = Record<string, FieldWords>;

export const glossary = (language: Language) =>
  queryOptions({
    queryKey: ["glossary", language],
    queryFn: async (): Promise<Glossary> =>
      language === "zh-CN" ? (await import("../../i18n/fields/zh.json")).default : english,
    staleTime: Number.POSITIVE_INFINITY,
  });

/** A name of a program, as people would write it. */
function humane(name: string): string {
  const words = name.replace(/_(s|mb|bytes)$/, "").replace(/_/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The words for what stands at a path of a form; a field that is new to the page has its own. */
export function wordsAt(words: Glossary, type: string, path: readonly string[]): FieldWords {
  const name = path.at(-1) ?? "";
  const joined = path.join(".");
  return words[`${type}.${joined}`] ?? words[joined] ?? words[name] ?? { label: humane(name) };
}

export function wordsOf(words: Glossary, type: string, field: FormField): FieldWords {
  const found = wordsAt(words, type, field.path);
  return found.hint || !field.hint ? found : { ...found, hint: field.hint };
}
