/** The fields of a task: its code, its parameters, and how and where it runs. */
import { useEffect, useMemo, useState } from "react";
import { useVisitor } from "../../app/session";
import type { TaskTypeView } from "../../generated/api";
import { useT } from "../../i18n";
import { hasAddresses, joinAddresses, partAddresses } from "../../lib/layout";
import { type FormField, fieldsOf, filled, type Schema, type Values } from "../../lib/schema";
import type { TaskRequest } from "../../lib/snippets";
import { Button, Card } from "../../ui/basics";
import { Catch, useTrial } from "./Catch";
import { Code, useSpiders, usesBundles } from "./Code";
import { OPTIONS } from "./options";
import { SchemaForm } from "./SchemaForm";
import type { Glossary } from "./words";

const OPTION_FIELDS = fieldsOf(OPTIONS);

/** The fields of a type's parameters, with all addresses in one of them. */
function fieldsOfType(type: TaskTypeView): { fields: FormField[] | null; joined: boolean } {
  if (!type.parameters) return { fields: null, joined: false };
  const fields = fieldsOf(type.parameters as Schema);
  if (!hasAddresses(fields)) return { fields, joined: false };
  const shown = fields
    .filter((field) => field.name !== "url")
    .map((field) => (field.name === "urls" ? { ...field, required: true } : field));
  return { fields: shown, joined: true };
}

/** What the selectors of a crawl catch on the first of its addresses. */
function SelectorTrial({ url, wanted }: { url: string; wanted: Values }) {
  const t = useT();
  const [outcome, begin] = useTrial();
  if (!wanted.selectors) return null;
  const { selectors, item, infer_item } = wanted;
  return (
    <div className="stack tight trial">
      <div className="row wrap">
        <Button
          size="small"
          icon="search"
          disabled={!url || outcome.kind === "busy"}
          onClick={() => void begin(filled({ url, selectors, item, infer_item }))}
        >
          {t("tester.try")}
        </Button>
        <span className="muted small breaks">{url || t("submit.tryNeeds")}</span>
      </div>
      <Catch outcome={outcome} />
    </div>
  );
}

interface TaskFieldsProps {
  type: TaskTypeView;
  words: Glossary;
  /** What the form begins with. */
  parameters: Values;
  more: Values;
  /** What the master found wrong, by field. */
  wrong: Record<string, string>;
  onRequest: (request: TaskRequest) => void;
}

/** A form for a task of a type; tells what is to be sent whenever that changes. */
export function TaskFields({ type, words, wrong, onRequest, ...begins }: TaskFieldsProps) {
  const t = useT();
  const { session } = useVisitor();
  const { fields, joined } = useMemo(() => fieldsOfType(type), [type]);
  const [parameters, setParameters] = useState<Values>(
    joined ? joinAddresses(begins.parameters) : begins.parameters,
  );
  const [more, setMore] = useState<Values>(begins.more);
  const coded = usesBundles(type.name);
  const projectId = String(more.project_id || session.projects?.[0] || "default");
  const code = String(more.bundle ?? "");
  const spiders = useSpiders(projectId, code, coded);
  const only = spiders.length === 1 ? spiders[0] : undefined;
  useEffect(() => {
    // One spider is no choice.
    if (only && type.name === "scrapy_spider") {
      setParameters((given) => ({ ...given, spider: given.spider || only }));
    }
  }, [only, type.name]);
  const shown = useMemo(
    () =>
      fields?.map((field) =>
        field.name === "spider" ? { ...field, suggestions: spiders } : field,
      ) ?? null,
    [fields, spiders],
  );
  useEffect(() => {
    const given = filled(parameters);
    onRequest({
      task_type: type.name,
      parameters: joined ? partAddresses(given) : given,
      ...filled(more),
    });
  }, [type.name, joined, parameters, more, onRequest]);
  const addresses = (parameters.urls as string[] | undefined) ?? [parameters.url as string];
  const url = addresses[0]?.trim() ?? "";
  return (
    <>
      {coded && (
        <Code
          type={type.name}
          projectId={projectId}
          value={code}
          wrong={wrong.bundle}
          onChange={(bundle) => setMore({ ...more, bundle })}
        />
      )}
      <Card title={t("submit.parameters")}>
        {shown ? (
          <SchemaForm
            key={type.name}
            type={type.name}
            words={words}
            fields={shown}
            values={parameters}
            wrong={innerOf(wrong, joined)}
            beside={
              type.name === "web_crawl"
                ? { selectors: <SelectorTrial url={url} wanted={parameters} /> }
                : {}
            }
            onChange={setParameters}
          />
        ) : (
          <p className="muted">{t("submit.noSchema")}</p>
        )}
      </Card>
      <Card>
        <details
          className="group"
          open={Object.keys(begins.more).some((name) => name !== "bundle")}
        >
          <summary>{t("submit.options")}</summary>
          <SchemaForm
            type="task"
            words={words}
            fields={OPTION_FIELDS}
            values={more}
            wrong={wrong}
            onChange={setMore}
          />
        </details>
      </Card>
    </>
  );
}

/** What is wrong with fields that the form of this type does not show. */
export function unplaced(
  type: TaskTypeView,
  wrong: Record<string, string>,
): [field: string, message: string][] {
  const { fields, joined } = fieldsOfType(type);
  const known = new Set([...namesOf(fields ?? []), ...namesOf(OPTION_FIELDS), "bundle"]);
  return [...Object.entries(wrong), ...Object.entries(innerOf(wrong, joined))].filter(
    ([field]) => !field.startsWith("parameters.") && !known.has(field.replace(/\[.*$/, "")),
  );
}

function namesOf(fields: readonly FormField[]): string[] {
  return fields.flatMap((field) => [field.path.join("."), ...namesOf(field.fields)]);
}

/** `parameters.url` is `url` to the form of the parameters, or one of its addresses. */
function innerOf(wrong: Record<string, string>, joined: boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(wrong)
      .filter(([field]) => field.startsWith("parameters."))
      .map(([field, message]) => {
        const name = field.slice("parameters.".length);
        return [joined && /^urls?(\[|$)/.test(name) ? "urls" : name, message];
      }),
  );
}
