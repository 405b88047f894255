/** Filters that live in the address, so that a link shows the same. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { projects, taskTypes } from "../api/queries";
import { useVisitor } from "../app/session";
import { useT, useWord } from "../i18n";
import { useSearch } from "../lib/router";

interface SelectFilterProps {
  /** Its name in the address. */
  name: string;
  label: string;
  values: readonly string[];
  word?: (value: string) => string;
}

export function SelectFilter({ name, label, values, word }: SelectFilterProps) {
  const t = useT();
  const [search, change] = useSearch();
  const value = search.get(name) ?? "";
  const options = value && !values.includes(value) ? [value, ...values] : values;
  return (
    <select
      className="select auto"
      aria-label={label}
      value={value}
      onChange={(event) => change({ [name]: event.target.value })}
    >
      <option value="">{t("common.any", { what: label })}</option>
      {options.map((each) => (
        <option key={each} value={each}>
          {word ? word(each) : each}
        </option>
      ))}
    </select>
  );
}

/** By one state, in the words of its family. */
export function StateSelect(props: {
  family: "delivery" | "health" | "node" | "run" | "step" | "task";
  values: readonly string[];
  name?: string;
  label?: string;
}) {
  const t = useT();
  const word = useWord();
  return (
    <SelectFilter
      name={props.name ?? "status"}
      label={props.label ?? t("tasks.state")}
      values={props.values}
      word={(state) => word(props.family, state)}
    />
  );
}

export function TypeSelect() {
  const t = useT();
  const { data } = useQuery(taskTypes);
  const values = data?.items.map((each) => each.name) ?? [];
  return <SelectFilter name="type" label={t("tasks.type")} values={values} />;
}

/** For those who see more than one project. */
export function ProjectSelect() {
  const t = useT();
  const { seesFleet } = useVisitor();
  const { data } = useQuery({ ...projects, enabled: seesFleet });
  if (!seesFleet) return null;
  const values = data?.items.map((each) => each.id) ?? [];
  return <SelectFilter name="project" label={t("tasks.project")} values={values} />;
}

interface TextFilterProps {
  name: string;
  label: string;
  type?: "search";
  className?: string;
}

/** A text that counts when it is finished: with Enter, or when one goes elsewhere. */
export function TextFilter({ name, label, type, className = "" }: TextFilterProps) {
  const [search, change] = useSearch();
  const value = search.get(name) ?? "";
  const [text, setText] = useState(value);
  const [taken, setTaken] = useState(value);
  if (taken !== value) {
    // The address has changed, by this filter or without it.
    setTaken(value);
    setText(value);
  }
  const take = () => {
    setText(text.trim());
    change({ [name]: text.trim() });
  };
  return (
    <input
      className={`input auto ${className}`}
      type={type ?? "text"}
      aria-label={label}
      placeholder={label}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={take}
      onKeyDown={(event) => {
        if (event.key === "Enter") take();
      }}
    />
  );
}

/** A text that counts while it is written, for what is here already. */
export function SearchFilter({ label }: { label: string }) {
  const [search, change] = useSearch();
  return (
    <input
      className="input auto"
      type="search"
      aria-label={label}
      placeholder={label}
      value={search.get("q") ?? ""}
      onChange={(event) => change({ q: event.target.value })}
    />
  );
}
