/** The inputs of a form, one for each kind of field. */
import { useState } from "react";
import { useT } from "../../i18n";
import { bytes, span } from "../../lib/format";
import type { FormField } from "../../lib/schema";
import { PairEditor } from "./PairEditor";
import type { FieldWords } from "./words";

export interface InputProps {
  field: FormField;
  words: FieldWords;
  id: string;
  note: string | undefined;
  value: unknown;
  onChange: (value: unknown) => void;
}

/** A value that has no better form: typed as JSON, taken over once it is. */
function JsonInput({ id, note, words, value, onChange }: InputProps) {
  const t = useT();
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [bad, setBad] = useState(false);
  return (
    <>
      <textarea
        id={id}
        aria-describedby={note}
        aria-invalid={bad || undefined}
        className="textarea short"
        placeholder={words.placeholder ?? "JSON"}
        value={text}
        rows={2}
        onChange={(event) => {
          const typed = event.target.value;
          setText(typed);
          try {
            onChange(typed.trim() ? JSON.parse(typed) : undefined);
            setBad(false);
          } catch {
            setBad(true);
          }
        }}
      />
      {bad && <span className="wrong">{t("submit.notJson")}</span>}
    </>
  );
}

/** The unit of a number, and the number as people say it where that is easier to read. */
function useUnit({ field, words, value }: InputProps): [unit: string, said: string] {
  const t = useT();
  const number = Number(value ?? field.fallback ?? Number.NaN);
  const known = Number.isFinite(number);
  if (words.unit) return [words.unit, ""];
  if (/(_s|seconds)$/.test(field.name))
    return [t("unit.seconds"), known && number >= 120 ? span(number) : ""];
  if (/bytes$/.test(field.name))
    return [t("unit.bytes"), known && number >= 1000 ? bytes(number) : ""];
  if (/_mb$/.test(field.name)) return ["MB", ""];
  return ["", ""];
}

function NumberInput(props: InputProps) {
  const { field, words, id, note, value, onChange } = props;
  const [unit, said] = useUnit(props);
  const usual = typeof field.fallback === "number" ? String(field.fallback) : "";
  return (
    <div className="with-unit">
      <input
        id={id}
        aria-describedby={note}
        className="input"
        type="number"
        step={field.whole ? 1 : "any"}
        min={field.min ?? undefined}
        max={field.max ?? undefined}
        required={field.required}
        placeholder={words.placeholder ?? (usual || field.example)}
        value={value === undefined || value === null ? "" : String(value)}
        onChange={(event) =>
          onChange(event.target.value === "" ? undefined : Number(event.target.value))
        }
      />
      {unit && (
        <span className="unit">
          {unit}
          {said && <span className="muted"> = {said}</span>}
        </span>
      )}
    </div>
  );
}

function ChoiceInput({ field, words, id, note, value, onChange }: InputProps) {
  const usual = typeof field.fallback === "string" ? field.fallback : "";
  return (
    <select
      id={id}
      aria-describedby={note}
      className="select"
      value={String(value ?? usual)}
      onChange={(event) => {
        const chosen = event.target.value;
        onChange(chosen === usual ? undefined : chosen);
      }}
    >
      {!usual && <option value="">{words.placeholder ?? "–"}</option>}
      {field.options.map((option) => (
        <option key={option} value={option}>
          {words.choices?.[option] ?? option}
        </option>
      ))}
    </select>
  );
}

function ListInput({ field, words, id, note, value, onChange }: InputProps) {
  const t = useT();
  const lines = (value as string[] | undefined) ?? [];
  const usual = Array.isArray(field.fallback) ? field.fallback.join("\n") : "";
  return (
    <textarea
      id={id}
      aria-describedby={note}
      className="textarea short"
      rows={Math.min(Math.max(lines.length + 1, 2), 8)}
      spellCheck={false}
      required={field.required}
      placeholder={words.placeholder ?? (field.example || usual || t("submit.onePerLine"))}
      value={lines.join("\n")}
      onChange={(event) =>
        onChange(event.target.value ? event.target.value.split("\n") : undefined)
      }
    />
  );
}

function TextInput({ field, words, id, note, value, onChange }: InputProps) {
  const usual = typeof field.fallback === "string" ? field.fallback : "";
  const list = field.suggestions.length > 0 ? `${id}-list` : undefined;
  return (
    <>
      <input
        id={id}
        aria-describedby={note}
        className="input"
        list={list}
        required={field.required}
        placeholder={words.placeholder ?? (usual || field.example)}
        value={String(value ?? "")}
        onChange={(event) => onChange(event.target.value)}
      />
      {list && (
        <datalist id={list}>
          {field.suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </>
  );
}

export function FieldInput(props: InputProps) {
  const { field, words, id, note, value, onChange } = props;
  switch (field.kind) {
    case "choice":
      return <ChoiceInput {...props} />;
    case "number":
      return <NumberInput {...props} />;
    case "list":
      return <ListInput {...props} />;
    case "map":
      return (
        <PairEditor
          id={id}
          of={field.mapOf}
          value={value}
          onChange={onChange}
          namePlaceholder={words.namePlaceholder}
          valuePlaceholder={words.placeholder}
        />
      );
    case "json":
      return <JsonInput {...props} />;
    case "longText":
      return (
        <textarea
          id={id}
          aria-describedby={note}
          className="textarea"
          rows={6}
          spellCheck={false}
          value={String(value ?? "")}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    default:
      return <TextInput {...props} />;
  }
}
