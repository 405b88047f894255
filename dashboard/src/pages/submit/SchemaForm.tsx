import { useState } from "react";
import { useT } from "../../i18n";
import { changed, type FormField, type Values } from "../../lib/schema";
import { Field } from "../../ui/basics";
import { PairEditor } from "./PairEditor";

interface SchemaFormProps {
  fields: readonly FormField[];
  values: Values;
  /** What the master said was wrong, by the path of the field. */
  wrong: Record<string, string>;
  onChange: (values: Values) => void;
  path?: readonly string[];
  root?: Values;
}

const SHOWS_DEFAULT = new Set(["boolean", "choice"]);

/** What the field is for, with what the schema puts between back-ticks as code, and its default. */
function Hint({ field }: { field: FormField }) {
  const { fallback, hint } = field;
  const plain = fallback === undefined || fallback === null || typeof fallback === "object";
  if (!hint && (plain || SHOWS_DEFAULT.has(field.kind))) return null;
  return (
    <>
      {hint.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}
      {!plain && !SHOWS_DEFAULT.has(field.kind) && <> ({String(fallback)})</>}
    </>
  );
}

/** A value that has no better form: typed as JSON, taken over once it is. */
function JsonInput(props: {
  id: string;
  note: string | undefined;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const t = useT();
  const [text, setText] = useState(
    props.value === undefined ? "" : JSON.stringify(props.value, null, 2),
  );
  const [bad, setBad] = useState(false);
  return (
    <>
      <textarea
        id={props.id}
        aria-describedby={props.note}
        aria-invalid={bad || undefined}
        className="textarea"
        value={text}
        rows={3}
        onChange={(event) => {
          const typed = event.target.value;
          setText(typed);
          try {
            props.onChange(typed.trim() ? JSON.parse(typed) : undefined);
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

function Input(props: {
  field: FormField;
  id: string;
  note: string | undefined;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const t = useT();
  const { field, id, note, value, onChange } = props;
  switch (field.kind) {
    case "boolean":
      return (
        <select
          id={id}
          aria-describedby={note}
          className="select"
          value={value === undefined ? "" : String(value)}
          onChange={(event) =>
            onChange(event.target.value === "" ? undefined : event.target.value === "true")
          }
        >
          <option value="">
            {t("submit.default", { value: field.fallback ? t("common.yes") : t("common.no") })}
          </option>
          <option value="true">{t("common.yes")}</option>
          <option value="false">{t("common.no")}</option>
        </select>
      );
    case "choice":
      return (
        <select
          id={id}
          aria-describedby={note}
          className="select"
          value={String(value ?? "")}
          onChange={(event) => onChange(event.target.value || undefined)}
        >
          <option value="">{t("submit.default", { value: String(field.fallback ?? "–") })}</option>
          {field.options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      );
    case "number":
      return (
        <input
          id={id}
          aria-describedby={note}
          className="input"
          type="number"
          step={field.whole ? 1 : "any"}
          min={field.min ?? undefined}
          max={field.max ?? undefined}
          required={field.required}
          value={value === undefined || value === null ? "" : String(value)}
          onChange={(event) =>
            onChange(event.target.value === "" ? undefined : Number(event.target.value))
          }
        />
      );
    case "list":
      return (
        <textarea
          id={id}
          aria-describedby={note}
          className="textarea"
          rows={3}
          placeholder={t("submit.onePerLine")}
          value={((value as string[] | undefined) ?? []).join("\n")}
          onChange={(event) => onChange(event.target.value.split("\n"))}
        />
      );
    case "map":
      return <PairEditor id={id} value={value} onChange={onChange} />;
    case "json":
      return <JsonInput id={id} note={note} value={value} onChange={onChange} />;
    default:
      return (
        <input
          id={id}
          aria-describedby={note}
          className="input"
          required={field.required}
          value={String(value ?? "")}
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}

/** A form for whatever a schema describes; groups that are not needed often are folded. */
export function SchemaForm({ fields, values, wrong, onChange, path = [] }: SchemaFormProps) {
  const plain = fields.filter((field) => field.kind !== "group");
  const groups = fields.filter((field) => field.kind === "group");
  return (
    <div className="stack">
      <div className="form-grid">
        {plain.map((field) => {
          const wide = field.kind === "map" || field.kind === "json" || field.kind === "list";
          return (
            <Field
              key={field.name}
              label={field.required ? `${field.name} *` : field.name}
              hint={<Hint field={field} />}
              wrong={wrong[[...path, field.name].join(".")]}
              className={wide || field.name === "url" ? "whole" : ""}
            >
              {(id, note) => (
                <Input
                  field={field}
                  id={id}
                  note={note}
                  value={values[field.name]}
                  onChange={(value) => onChange(changed(values, [field.name], value))}
                />
              )}
            </Field>
          );
        })}
      </div>
      {groups.map((group) => (
        <details className="group" key={group.name}>
          <summary>
            {group.name}{" "}
            <span className="muted small">
              <Hint field={group} />
            </span>
          </summary>
          <SchemaForm
            fields={group.fields}
            values={(values[group.name] ?? {}) as Values}
            wrong={wrong}
            path={[...path, group.name]}
            onChange={(inner) => onChange(changed(values, [group.name], inner))}
          />
        </details>
      ))}
    </div>
  );
}
