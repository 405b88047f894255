import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { call } from "../../api/client";
import type { UrlExplanation } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { ago } from "../../lib/format";
import { useSearch } from "../../lib/router";
import { Button, Card, Field, Loaded, Outside } from "../../ui/basics";
import { Icon } from "../../ui/Icon";

function Answer({ answer }: { answer: UrlExplanation }) {
  const t = useT();
  const word = useWord();
  const { record } = answer;
  const facts: [string, string | number | null | undefined][] = record
    ? [
        [t("tasks.state"), word("urlState", record.status)],
        [t("url.outcome"), record.outcome ? word("outcome", record.outcome) : null],
        [t("url.http"), record.http_status || null],
        [t("url.depth"), record.depth],
        [t("url.attempts"), record.attempts],
        [t("url.foundOn"), record.found_on],
        [t("url.foundAt"), record.found_at ? ago(record.found_at * 1000) : null],
        [t("url.at"), record.at ? ago(record.at * 1000) : null],
        [t("url.due"), record.due ? ago(record.due * 1000) : null],
        [t("url.note"), record.note],
      ]
    : [[t("url.rule"), answer.refused_by]];
  return (
    <div className="stack" role="status">
      <div className={`notice ${record ? "ok" : "warn"}`}>
        <Icon name={record ? "check" : "warning"} />
        <span className="strong breaks">
          {answer.why || (record ? t("url.known") : t("url.unknown"))}
        </span>
      </div>
      <dl className="facts">
        <dt>{t("url.canonical")}</dt>
        <dd>
          <Outside text={answer.url} />
        </dd>
        {facts.map(([name, value]) =>
          value === null || value === undefined || value === "" ? null : (
            <div key={name} className="fact">
              <dt>{name}</dt>
              <dd>
                <Outside text={String(value)} />
              </dd>
            </div>
          ),
        )}
      </dl>
    </div>
  );
}

/** What became of one address: fetched, waiting, or kept out, and by which rule. */
export function UrlLookUp({ id }: { id: string }) {
  const t = useT();
  const [search, change] = useSearch();
  const asked = search.get("url") ?? "";
  const [text, setText] = useState(asked);
  const found = useQuery({
    queryKey: ["crawl", id, "url", asked],
    queryFn: () =>
      call("get", "/api/v1/crawls/{task_id}/urls", {
        path: { task_id: id },
        query: { url: asked },
      }),
    enabled: asked !== "",
    retry: false,
  });
  function submit(event: FormEvent): void {
    event.preventDefault();
    change({ url: text.trim() });
  }
  return (
    <Card title={t("crawl.lookUp")}>
      <div className="stack">
        <form className="row" onSubmit={submit}>
          <Field label={t("url.address")} className="grow">
            {(field) => (
              <input
                id={field}
                className="input mono"
                placeholder="https://shop.example/product/7"
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            )}
          </Field>
          <Button type="submit" look="primary" className="align-end" disabled={!text.trim()}>
            {t("url.ask")}
          </Button>
        </form>
        {asked ? (
          <Loaded of={found} rows={4}>
            {(answer) => <Answer answer={answer} />}
          </Loaded>
        ) : (
          <p className="muted">{t("url.hint")}</p>
        )}
      </div>
    </Card>
  );
}
