import type { TaskTypeView } from "../../generated/api";
import { useT } from "../../i18n";
import { Field } from "../../ui/basics";
import { type Glossary, wordsAt } from "./words";

/** The type that most come for is the first. */
export function sortedTypes(types: readonly TaskTypeView[]): TaskTypeView[] {
  const rank = (type: TaskTypeView) => {
    const place = USUAL_TYPES.indexOf(type.name);
    return place < 0 ? USUAL_TYPES.length : place;
  };
  return [...types].sort((a, b) => rank(a) - rank(b));
}

const USUAL_TYPES = ["web_crawl", "http_fetch", "extract", "python"];

interface TypeChoiceProps {
  types: readonly TaskTypeView[];
  words: Glossary;
  value: TaskTypeView;
  onChange: (name: string) => void;
}

/** What is to be done, with how many nodes do such things. */
export function TypeChoice({ types, words, value, onChange }: TypeChoiceProps) {
  const t = useT();
  const said = wordsAt(words, "type", [value.name]);
  const nameOf = (each: TaskTypeView) => {
    const { label } = words[`type.${each.name}`] ?? { label: "" };
    return label ? `${label} (${each.name})` : each.name;
  };
  return (
    <Field label={t("submit.what")} hint={said.hint ?? value.summary}>
      {(id) => (
        <select
          id={id}
          className="select"
          value={value.name}
          onChange={(event) => onChange(event.target.value)}
        >
          {types.map((each) => (
            <option key={each.name} value={each.name}>
              {nameOf(each)} · {t("submit.nodes", { n: each.nodes })}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
