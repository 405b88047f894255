import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo, useState } from "react";
import { call, Problem } from "../../api/client";
import { task as taskQuery, taskTypes } from "../../api/queries";
import type { TaskTypeView } from "../../generated/api";
import { useT } from "../../i18n";
import { navigate, useSearch } from "../../lib/router";
import { fieldsOf, filled, type Schema, type Values } from "../../lib/schema";
import type { TaskRequest } from "../../lib/snippets";
import { Button, Card, Empty, Field, Loaded, PageHead, Skeletons } from "../../ui/basics";
import { CopyAs } from "../../ui/CopyAs";
import { Tabs } from "../../ui/Tabs";
import { useToast } from "../../ui/Toasts";
import { OPTIONS } from "./options";
import { SchemaForm } from "./SchemaForm";
import { Tester } from "./Tester";

/** What the master found wrong, by field. */
function problemsOf(error: unknown): Record<string, string> {
  if (!(error instanceof Problem)) return {};
  return Object.fromEntries(
    (error.body.errors ?? []).map((each) => [each.field, `${each.message}; ${each.remedy}`]),
  );
}

function Form(props: { type: TaskTypeView; parameters: Values; more: Values }) {
  const t = useT();
  const toast = useToast();
  const { type } = props;
  const fields = useMemo(
    () => (type.parameters ? fieldsOf(type.parameters as Schema) : null),
    [type.parameters],
  );
  const options = useMemo(() => fieldsOf(OPTIONS), []);
  const [parameters, setParameters] = useState<Values>(props.parameters);
  const [more, setMore] = useState<Values>(props.more);
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const request: TaskRequest = useMemo(
    () => ({ task_type: type.name, parameters: filled(parameters), ...filled(more) }),
    [type.name, parameters, more],
  );

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
        toast({ tone: "bad", text: (error as Error).message });
      }
      setBusy(false);
    }
  }

  const known = new Set([
    ...(fields ?? []).map((field) => `parameters.${field.name}`),
    ...options.map((field) => field.name),
  ]);
  const others = Object.entries(wrong).filter(([field]) => !known.has(field));
  return (
    <form className="grid" onSubmit={(event) => void submit(event)}>
      <div className="span-7 stack">
        <Card title={t("submit.parameters")}>
          {fields ? (
            <SchemaForm
              key={type.name}
              fields={fields}
              values={parameters}
              wrong={inner(wrong)}
              onChange={setParameters}
            />
          ) : (
            <p className="muted">{t("submit.noSchema")}</p>
          )}
        </Card>
        <Card>
          <details className="group" open={Object.keys(props.more).length > 0}>
            <summary>{t("submit.options")}</summary>
            <SchemaForm fields={options} values={more} wrong={wrong} onChange={setMore} />
          </details>
        </Card>
      </div>
      <div className="span-5 stack">
        <Card title={t("submit.ready")}>
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

/** `parameters.url` is `url` to the form of the parameters. */
function inner(wrong: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(wrong)
      .filter(([field]) => field.startsWith("parameters."))
      .map(([field, message]) => [field.slice("parameters.".length), message]),
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

function NewTask({ types }: { types: readonly TaskTypeView[] }) {
  const t = useT();
  const [search, change] = useSearch();
  const from = search.get("from") ?? "";
  const origin = useQuery({ ...taskQuery(from), enabled: from !== "", refetchInterval: false });
  if (from && origin.isPending) return <Skeletons rows={6} />;
  const first = types.find((each) => each.name === "web_crawl") ?? types[0];
  const name = origin.data?.task_type ?? search.get("type") ?? first?.name;
  const type = types.find((each) => each.name === name) ?? first;
  if (!type) return <Empty icon="submit" title={t("submit.noTypes")} />;
  const more = origin.data
    ? Object.fromEntries(
        KEPT.map((each) => [each, origin.data[each]]).filter(([, it]) => it != null),
      )
    : {};
  return (
    <div className="stack">
      <Card>
        <Field label={t("tasks.type")} hint={type.summary}>
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
                  {each.name} · {t("submit.nodes", { n: each.nodes })}
                </option>
              ))}
            </select>
          )}
        </Field>
      </Card>
      <Form
        key={`${type.name} ${from} ${search.get("parameters") ?? ""}`}
        type={type}
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
  const types = useQuery(taskTypes);
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
          {({ items }) => <NewTask types={items} />}
        </Loaded>
      )}
    </>
  );
}
