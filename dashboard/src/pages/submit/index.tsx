import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo, useState } from "react";
import { call, problemsOf } from "../../api/client";
import { task as taskQuery, taskTypes } from "../../api/queries";
import type { TaskTypeView, TaskView } from "../../generated/api";
import { useT, useWords } from "../../i18n";
import { navigate, useSearch } from "../../lib/router";
import type { Values } from "../../lib/schema";
import type { TaskRequest } from "../../lib/snippets";
import { Button, Card, Empty, Loaded, PageHead, Skeletons } from "../../ui/basics";
import { CopyAs } from "../../ui/CopyAs";
import { Tabs } from "../../ui/Tabs";
import { useComplain, useToast } from "../../ui/Toasts";
import { TaskFields, unplaced } from "./TaskFields";
import { Tester } from "./Tester";
import { sortedTypes, TypeChoice } from "./TypeChoice";
import { type Glossary, glossary } from "./words";

interface FormProps {
  type: TaskTypeView;
  parameters: Values;
  more: Values;
  words: Glossary;
}

function Form({ type, ...begins }: FormProps) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const [request, setRequest] = useState<TaskRequest>({ task_type: type.name });
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);

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

  return (
    <form className="grid" onSubmit={(event) => void submit(event)}>
      <div className="span-7 stack">
        <TaskFields type={type} wrong={wrong} onRequest={setRequest} {...begins} />
      </div>
      <div className="span-5 stack">
        <Card title={t("submit.ready")} className="stays">
          <div className="stack">
            {unplaced(type, wrong).map(([field, message]) => (
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

function given(text: string | null): Values {
  try {
    return text ? (JSON.parse(text) as Values) : {};
  } catch {
    return {};
  }
}

const KEPT = [
  "priority",
  "project_id",
  "cluster_id",
  "timeout",
  "max_retries",
  "bundle",
] as const satisfies readonly (keyof TaskView)[];

/** What the address says besides the parameters: a page about a bundle leads here. */
function asked(search: URLSearchParams): Values {
  const bundle = search.get("bundle");
  const project_id = search.get("project");
  return { ...(bundle ? { bundle } : {}), ...(project_id ? { project_id } : {}) };
}

function NewTask(props: { types: readonly TaskTypeView[]; words: Glossary }) {
  const t = useT();
  const { words } = props;
  const types = useMemo(() => sortedTypes(props.types), [props.types]);
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
    : asked(search);
  return (
    <div className="stack">
      <Card>
        <TypeChoice
          types={types}
          words={words}
          value={type}
          onChange={(chosen) =>
            change({ type: chosen, from: null, parameters: null, bundle: null })
          }
        />
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
