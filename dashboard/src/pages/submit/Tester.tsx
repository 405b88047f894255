import { type FormEvent, useState } from "react";
import { call } from "../../api/client";
import { isOver } from "../../api/queries";
import type { TaskView } from "../../generated/api";
import { useT } from "../../i18n";
import { bytes, count } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { Button, Card, Chip, Empty, Field, Segments } from "../../ui/basics";
import { type Item, ItemTable } from "../../ui/ItemTable";
import { Json } from "../../ui/Json";
import { PairEditor } from "./PairEditor";

interface Caught {
  url: string;
  status: number | null;
  bytes: number;
  caught: Record<string, number>;
  items: Item[];
  count: number;
}

type Outcome =
  | { kind: "none" }
  | { kind: "busy" }
  | { kind: "wrong"; why: string; id?: string }
  | { kind: "done"; caught: Caught };

/** Have a node try the selectors: the master itself never reads pages. */
async function attempt(parameters: Record<string, unknown>): Promise<TaskView> {
  const body = { task_type: "extract", parameters, priority: 10, max_retries: 0, timeout: 60 };
  const receipt = await call("post", "/api/v1/tasks", { body: body as never });
  const path = { task_id: receipt.id };
  let task: TaskView;
  do {
    task = await call("get", "/api/v1/tasks/{task_id}", { path, query: { wait: 30 } });
  } while (!isOver(task.status) && task.status !== "pending");
  return task;
}

function Shown({ outcome }: { outcome: Outcome }) {
  const t = useT();
  if (outcome.kind === "none") {
    return (
      <Empty
        icon="search"
        title={t("tester.emptyTitle")}
        command="crawlfleet extract https://shop.example --css 'title=h2.title'"
      >
        {t("tester.emptyText")}
      </Empty>
    );
  }
  if (outcome.kind === "busy")
    return (
      <p className="muted" role="status">
        {t("tester.busy")}
      </p>
    );
  if (outcome.kind === "wrong") {
    return (
      <div className="notice bad" role="alert">
        <span className="grow breaks">{outcome.why}</span>
        {outcome.id && <Link to={`/tasks/${outcome.id}`}>{t("palette.task")}</Link>}
      </div>
    );
  }
  const { caught } = outcome;
  return (
    <div className="stack" role="status">
      <div className="row wrap">
        {caught.status ? (
          <Chip tone={caught.status < 400 ? "ok" : "bad"}>HTTP {caught.status}</Chip>
        ) : null}
        <Chip>{bytes(caught.bytes)}</Chip>
        <Chip tone={caught.count ? "ok" : "warn"}>
          {t("tester.items", { n: count(caught.count) })}
        </Chip>
        {Object.entries(caught.caught).map(([name, n]) => (
          <Chip key={name} tone={n ? "busy" : "warn"}>
            {name}: {count(n)}
          </Chip>
        ))}
      </div>
      {caught.items.length > 0 ? (
        <>
          <ItemTable items={caught.items} />
          <details className="group">
            <summary>JSON</summary>
            <Json value={caught.items} label={t("crawls.items")} />
          </details>
        </>
      ) : (
        <p className="muted">{t("tester.nothing")}</p>
      )}
    </div>
  );
}

export function Tester() {
  const t = useT();
  const [search] = useSearch();
  const [source, setSource] = useState<"url" | "html">("url");
  const [url, setUrl] = useState(search.get("url") ?? "");
  const [html, setHtml] = useState("");
  const [selectors, setSelectors] = useState<Record<string, unknown>>();
  const [outcome, setOutcome] = useState<Outcome>({ kind: "none" });

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setOutcome({ kind: "busy" });
    try {
      const task = await attempt({
        ...(source === "url" ? { url } : { html, ...(url ? { base_url: url } : {}) }),
        selectors: selectors ?? {},
      });
      const result = task.result as { data?: Caught } | null | undefined;
      if (task.status === "completed" && result?.data) {
        setOutcome({ kind: "done", caught: result.data });
      } else {
        const why = task.error?.message ?? t("tester.waits");
        setOutcome({ kind: "wrong", why, id: task.id });
      }
    } catch (error) {
      setOutcome({ kind: "wrong", why: (error as Error).message });
    }
  }

  const crawl = JSON.stringify({ url, selectors: selectors ?? {} });
  return (
    <div className="grid">
      <form className="span-5 stack" onSubmit={(event) => void submit(event)}>
        <Card title={t("tester.title")}>
          <div className="stack">
            <Segments
              label={t("tester.source")}
              value={source}
              options={[
                ["url", t("tester.url")],
                ["html", t("tester.html")],
              ]}
              onChange={setSource}
            />
            <Field label={source === "url" ? t("tester.url") : t("tester.base")}>
              {(id) => (
                <input
                  id={id}
                  className="input mono"
                  placeholder="https://shop.example/"
                  required={source === "url"}
                  value={url}
                  onChange={(event) => setUrl(event.target.value)}
                />
              )}
            </Field>
            {source === "html" && (
              <Field label={t("tester.html")}>
                {(id) => (
                  <textarea
                    id={id}
                    className="textarea"
                    rows={8}
                    required
                    value={html}
                    onChange={(event) => setHtml(event.target.value)}
                  />
                )}
              </Field>
            )}
            <Field label={t("tester.selectors")} hint={t("tester.hint")}>
              {(id) => (
                <PairEditor
                  id={id}
                  value={selectors}
                  onChange={setSelectors}
                  namePlaceholder="title"
                  valuePlaceholder="h2.title"
                />
              )}
            </Field>
            <div className="row wrap">
              <Button type="submit" look="primary" disabled={outcome.kind === "busy"}>
                {t("tester.try")}
              </Button>
              {selectors && (
                <Link
                  className="button"
                  to={`/submit?type=web_crawl&parameters=${encodeURIComponent(crawl)}`}
                >
                  {t("tester.use")}
                </Link>
              )}
            </div>
          </div>
        </Card>
      </form>
      <Card className="span-7" title={t("tester.caught")}>
        <Shown outcome={outcome} />
      </Card>
    </div>
  );
}
