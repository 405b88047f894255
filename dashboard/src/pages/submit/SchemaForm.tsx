/** A form for whatever a schema describes: first what is common, then the rest by subject. */
import { type ReactNode, useId, useMemo } from "react";
import { useT } from "../../i18n";
import { arrange, filledIn, type Section } from "../../lib/layout";
import { changed, type FormField, type Values, valueAt } from "../../lib/schema";
import { Button, Coded, Field } from "../../ui/basics";
import { FieldInput } from "./FieldInput";
import { type FieldWords, type Glossary, wordsAt, wordsOf } from "./words";

interface FormContext {
  type: string;
  words: Glossary;
  /** What the master said was wrong, by the path of the field. */
  wrong: Record<string, string>;
  /** What stands below a field, by its path. */
  beside?: Record<string, ReactNode>;
}

interface OneProps extends FormContext {
  field: FormField;
  value: unknown;
  /** Where the field stands, as the master names it. */
  at: string;
  onChange: (value: unknown) => void;
}

const WIDE = new Set(["map", "json", "list", "rows", "longText"]);

interface CheckProps {
  words: FieldWords;
  wrong: string | undefined;
  usual: boolean;
  value: unknown;
  onChange: (value: unknown) => void;
}

/** Yes or no, with what is usual until somebody says otherwise. */
function Check(props: CheckProps) {
  const id = useId();
  const usual = props.usual;
  const note = props.wrong ?? props.words.hint;
  return (
    <div className="field">
      <label className="check" htmlFor={id}>
        <input
          id={id}
          type="checkbox"
          aria-describedby={note ? `${id}-note` : undefined}
          checked={props.value === undefined ? usual : props.value === true}
          onChange={(event) =>
            props.onChange(event.target.checked === usual ? undefined : event.target.checked)
          }
        />
        {props.words.label}
      </label>
      {note && (
        <span className={props.wrong ? "wrong" : "hint"} id={`${id}-note`}>
          <Coded text={note} />
        </span>
      )}
    </div>
  );
}

/** Several of the same, each with fields of its own. */
function Rows(props: { fieldWords: FieldWords } & OneProps) {
  const t = useT();
  const { field, fieldWords, at, onChange } = props;
  const rows = (props.value as Values[] | undefined) ?? [];
  const change = (next: Values[]) => onChange(next.length > 0 ? next : undefined);
  return (
    <fieldset className="field whole rows">
      <legend className="field-label">{fieldWords.label}</legend>
      {fieldWords.hint && (
        <span className="hint">
          <Coded text={fieldWords.hint} />
        </span>
      )}
      {rows.map((row, index) => (
        <div className="rows-one" key={index}>
          <div className="form-grid">
            {field.fields.map((inner) => (
              <One
                key={inner.name}
                {...props}
                field={inner}
                at={`${at}[${index}].${inner.name}`}
                value={row[inner.name]}
                onChange={(value) =>
                  change(
                    rows.map((each, place) =>
                      place === index ? { ...each, [inner.name]: value } : each,
                    ),
                  )
                }
              />
            ))}
          </div>
          <div>
            <Button
              size="small"
              look="plain"
              icon="close"
              onClick={() => change(rows.filter((_, place) => place !== index))}
            >
              {t("submit.rowRemove", { n: index + 1 })}
            </Button>
          </div>
        </div>
      ))}
      <div>
        <Button size="small" icon="submit" onClick={() => change([...rows, {}])}>
          {t("submit.rowAdd")}
        </Button>
      </div>
    </fieldset>
  );
}

function One(props: OneProps) {
  const { field, type, words: glossary, at } = props;
  const words = wordsOf(glossary, type, field);
  const wrong = props.wrong[at];
  if (field.kind === "boolean")
    return (
      <Check
        words={words}
        wrong={wrong}
        usual={field.fallback === true}
        value={props.value}
        onChange={props.onChange}
      />
    );
  if (field.kind === "rows") return <Rows {...props} fieldWords={words} />;
  const wide = WIDE.has(field.kind) || field.name === "url" ? "whole" : "";
  const beside = props.beside?.[at];
  const one = (
    <Field
      label={field.required ? `${words.label} *` : words.label}
      hint={words.hint ? <Coded text={words.hint} /> : undefined}
      wrong={wrong}
      className={wide}
    >
      {(id, note) => (
        <FieldInput
          field={field}
          words={words}
          id={id}
          note={note}
          value={props.value}
          onChange={props.onChange}
        />
      )}
    </Field>
  );
  if (!beside) return one;
  return (
    <div className={`stack tight ${wide}`}>
      {one}
      {beside}
    </div>
  );
}

interface SchemaFormProps extends FormContext {
  fields: readonly FormField[];
  values: Values;
  onChange: (values: Values) => void;
}

export function SchemaForm({ fields, values, onChange, ...context }: SchemaFormProps) {
  const t = useT();
  const { type, words, wrong } = context;
  const { first, sections } = useMemo(() => arrange(fields, type), [fields, type]);
  const grid = (several: readonly FormField[]) => (
    <div className="form-grid">
      {several.map((field) => (
        <One
          key={field.path.join(".")}
          {...context}
          field={field}
          at={field.path.join(".")}
          value={valueAt(values, field.path)}
          onChange={(value) => onChange(changed(values, field.path, value))}
        />
      ))}
    </div>
  );
  const told = (section: Section) =>
    section.fields.some((field) => {
      const at = field.path.join(".");
      return Object.keys(wrong).some((each) => each === at || each.startsWith(`${at}[`));
    });
  return (
    <div className="stack">
      {grid(first)}
      {sections.length > 0 && (
        <div className="sections">
          {sections.map((section) => {
            const name = wordsAt(words, type, [section.name]);
            const hint =
              name.hint ?? fields.find((field) => field.name === section.name)?.hint ?? "";
            const n = filledIn(section, values);
            return (
              <details className="group" key={section.name} open={told(section) || undefined}>
                <summary>
                  {name.label}
                  {n > 0 && <span className="chip busy">{t("submit.filledIn", { n })}</span>}
                  <span className="muted small">
                    <Coded text={hint} />
                  </span>
                </summary>
                {grid(section.fields)}
              </details>
            );
          })}
        </div>
      )}
    </div>
  );
}
