import { type FormEvent, useState } from "react";
import { useT } from "../../i18n";
import { Link, useSearch } from "../../lib/router";
import { Button, Card, Empty, Field, Segments } from "../../ui/basics";
import { Catch, useTrial } from "./Catch";
import { PairEditor } from "./PairEditor";

export function Tester() {
  const t = useT();
  const [search] = useSearch();
  const [source, setSource] = useState<"url" | "html">("url");
  const [url, setUrl] = useState(search.get("url") ?? "");
  const [html, setHtml] = useState("");
  const [item, setItem] = useState("");
  const [selectors, setSelectors] = useState<Record<string, unknown>>();
  const [outcome, begin] = useTrial();

  const wanted = { ...(item.trim() ? { item } : {}), selectors: selectors ?? {} };

  function submit(event: FormEvent): void {
    event.preventDefault();
    void begin({
      ...(source === "url" ? { url } : { html, ...(url ? { base_url: url } : {}) }),
      ...wanted,
    });
  }

  const crawl = JSON.stringify({ url, ...wanted });
  return (
    <div className="grid">
      <form className="span-5 stack" onSubmit={submit}>
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
            <Field label={t("tester.item")} hint={t("tester.itemHint")}>
              {(id) => (
                <input
                  id={id}
                  className="input mono"
                  placeholder="div.product"
                  value={item}
                  onChange={(event) => setItem(event.target.value)}
                />
              )}
            </Field>
            <Field label={t("tester.selectors")} hint={t("tester.hint")}>
              {(id) => (
                <PairEditor
                  id={id}
                  of="selectors"
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
        {outcome.kind === "none" ? (
          <Empty
            icon="search"
            title={t("tester.emptyTitle")}
            command="crawlfleet extract https://shop.example --css 'title=h2.title'"
          >
            {t("tester.emptyText")}
          </Empty>
        ) : (
          <Catch outcome={outcome} />
        )}
      </Card>
    </div>
  );
}
