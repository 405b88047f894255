import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo, useState } from "react";
import { call, Problem } from "../../api/client";
import { task as taskQuery, taskTypes } from "../../api/queries";
import type { TaskTypeView } from "../../generated/api";
import { useT, useWords } from "../../i18n";
import { hasAddresses, joinAddresses, partAddresses } from "../../lib/layout";
import { navigate, useSearch } from "../../lib/router";
import { type FormField, fieldsOf, filled, type Schema, type Values } from "../../lib/schema";
import type { TaskRequest } from "../../lib/snippets";
import { Button, Card, Empty, Field, Loaded, PageHead, Skeletons } from "../../ui/basics";
import { CopyAs } from "../../ui/CopyAs";
import { Tabs } from "../../ui/Tabs";
import { useComplain, useToast } from "../../ui/Toasts";
import { Catch, useTrial } from "./Catch";
import { OPTIONS } from "./options";
import { SchemaForm } from "./SchemaForm";
import { Tester } from "./Tester";
import { type Glossary, glossary, wordsAt } from "./words";

/** What the master found wrong, by field. */
function problemsOf(error: unknown): Record<string, string> {
  if (!(error instanceof Problem)) return {};
  return Object.fromEntries(
    (error.body.errors ?? []).map((each) => [each.field, `${each.message}; ${each.remedy}`]),
  );
}

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
function SelectorTrial({ url, selectors }: { url: string; selectors: unknown }) {
  const t = useT();
  const [outcome, begin] = useTrial();
  if (!selectors) return null;
  return (
    <div className="stack tight trial">
      <div className="row wrap">
        <Button
          size="small"
          icon="search"
          disabled={!url || outcome.kind === "busy"}
          onClick={() => void begin({ url, selectors })}
        >
          {t("tester.try")}
        </Button>
        <span className="muted small breaks">{url || t("submit.tryNeeds")}</span>
      </div>
      <Catch outcome={outcome} />
    </div>
  );
}

interface FormProps {
  type: TaskTypeView;
  parameters: Values;
  more: Values;
  words: Glossary;
}

function Form(props: FormProps) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { type, words } = props;
  const { fields, joined } = useMemo(() => fieldsOfType(type), [type]);
  const [parameters, setParameters] = useState<Values>(
    joined ? joinAddresses(props.parameters) : props.parameters,
  );
  const [more, setMore] = useState<Values>(props.more);
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const request: TaskRequest = useMemo(() => {
    const given = filled(parameters);
    return {
      task_type: type.name,
      parameters: joined ? partAddresses(given) : given,
      ...filled(more),
    };
  }, [type.name, joined, parameters, more]);

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setWrong({});
    try {
      const receipt = await call("post", "/api/v1/tasks", { body: request as never });
      toast({ tone: "ok", text: receipt.deduplicated ? t("submit.same") : t("submit.done") });
      navigate(`/${type.name === "web_crawl" ? "crawls" : "tasks"}/${receipt.id}`);
    } catch (error) {
      const found = problemsOf(error);
      setWrong(found);
      if (Object.keys(found).length === 0) {
        complain(error);
      }
      setBusy(false);
    }
  }

  const inner = innerOf(wrong, joined);
  const known = new Set([...namesOf(fields ?? []), ...namesOf(OPTION_FIELDS)]);
  const others = [...Object.entries(wrong), ...Object.entries(inner)].filter(
    ([field]) => !field.startsWith("parameters.") && !known.has(field.replace(/\[.*$/, "")),
  );
  const addresses = (parameters.urls as string[] | undefined) ?? [parameters.url as string];
  const url = addresses[0]?.trim() ?? "";
  return (
    <form className="grid" onSubmit={(event) => void submit(event)}>
      <div className="span-7 stack">
        <Card title={t("submit.parameters")}>
          {fields ? (
            <SchemaForm
              key={type.name}
              type={type.name}
              words={words}
              fields={fields}
              values={parameters}
              wrong={inner}
              beside={
                type.name === "web_crawl"
                  ? { selectors: <SelectorTrial url={url} selectors={parameters.selectors} /> }
                  : {}
              }
              onChange={setParameters}
            />
          ) : (
            <p className="muted">{t("submit.noSchema")}</p>
          )}
        </Card>
        <Card>
          <details className="group" open={Object.keys(props.more).length > 0}>
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
      </div>
      <div className="span-5 stack">
        <Card title={t("submit.ready")} className="stays">
          <div className="stack">
            {others.map(([field, message]) => (
              <div key={field} className="notice bad" role="alert">
                <span className="breaks">
                  <b>{field}</b> {message}
                </span>
              </div>
            ))}
            {type.nodes === 0 && <div className="notice warn">{t("submit.noNode")}</div>}
            <Button type="submit" look="primary" disabled={busy}>
              {t("nav.submit")}
            </Button>
            <div>
              <h3 className="muted">{t("copyAs.title")}</h3>
              <CopyAs request={request} />
            </div>
          </div>
        </Card>
      </div>
    </form>
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

function given(text: string | null): Values {
  try {
    return text ? (JSON.parse(text) as Values) : {};
  } catch {
    return {};
  }
}

const KEPT = ["priority", "project_id", "cluster_id", "timeout", "max_retries"] as const;

/** The type that most come for is the first. */
function sorted(types: readonly TaskTypeView[]): TaskTypeView[] {
  const rank = (type: TaskTypeView) => {
    const place = USUAL_TYPES.indexOf(type.name);
    return place < 0 ? USUAL_TYPES.length : place;
  };
  return [...types].sort((a, b) => rank(a) - rank(b));
}

const USUAL_TYPES = ["web_crawl", "http_fetch", "extract", "python"];

function NewTask(props: { types: readonly TaskTypeView[]; words: Glossary }) {
  const t = useT();
  const { words } = props;
  const types = useMemo(() => sorted(props.types), [props.types]);
  const [search, change] = useSearch();
  const from = search.get("from") ?? "";
  const origin = useQuery({ ...taskQuery(from), enabled: from !== "", refetchInterval: false });
  if (from && origin.isPending) return <Skeletons rows={6} />;
  const first = types[0];
  const name = origin.data?.task_type ?? search.get("type") ?? first?.name;
  const type = types.find((each) => each.name === name) ?? first;
  if (!type) return <Empty icon="submit" title={t("submit.noTypes")} />;
  const more = origin.data
    ? Object.fromEntries(
        KEPT.map((each) => [each, origin.data[each]]).filter(([, it]) => it != null),
      )
    : {};
  const said = wordsAt(words, "type", [type.name]);
  const nameOf = (each: TaskTypeView) => {
    const { label } = words[`type.${each.name}`] ?? { label: "" };
    return label ? `${label} (${each.name})` : each.name;
  };
  return (
    <div className="stack">
      <Card>
        <Field label={t("submit.what")} hint={said.hint ?? type.summary}>
          {(id) => (
            <select
              id={id}
              className="select"
              value={type.name}
              onChange={(event) =>
                change({ type: event.target.value, from: null, parameters: null })
              }
            >
              {types.map((each) => (
                <option key={each.name} value={each.name}>
                  {nameOf(each)} · {t("submit.nodes", { n: each.nodes })}
                </option>
              ))}
            </select>
          )}
        </Field>
      </Card>
      <Form
        key={`${type.name} ${from} ${search.get("parameters") ?? ""}`}
        type={type}
        words={words}
        parameters={
          origin.data ? (origin.data.parameters as Values) : given(search.get("parameters"))
        }
        more={more}
      />
    </div>
  );
}

export default function Submit() {
  const t = useT();
  const [search] = useSearch();
  const { language } = useWords();
  const types = useQuery(taskTypes);
  const words = useQuery(glossary(language));
  const tab = search.get("tab") ?? "task";
  return (
    <>
      <PageHead title={<h1>{t("nav.submit")}</h1>} />
      <Tabs
        label={t("nav.submit")}
        current={tab}
        tabs={[
          ["task", t("submit.task")],
          ["selectors", t("tester.title")],
        ]}
      />
      {tab === "selectors" ? (
        <Tester />
      ) : (
        <Loaded of={types} rows={8}>
          {({ items }) => (
            <Loaded of={words} rows={8}>
              {(said) => <NewTask types={items} words={said} />}
            </Loaded>
          )}
        </Loaded>
      )}
    </>
  );
}
