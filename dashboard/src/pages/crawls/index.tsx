import { call } from "../../api/client";
import { useVisitor } from "../../app/session";
import type { CrawlView } from "../../generated/api";
import { useT } from "../../i18n";
import { bytes, count, short } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, useSearch } from "../../lib/router";
import { STATES } from "../../lib/taskFilter";
import { Card, Empty, PageHead } from "../../ui/basics";
import { StateSelect } from "../../ui/filters";
import { Icon } from "../../ui/Icon";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import { type Column, since } from "../../ui/Table";

function useColumns(): Column<CrawlView>[] {
  const t = useT();
  return [
    { title: t("tasks.state"), cell: (crawl) => <State family="task" name={crawl.state} /> },
    {
      title: t("crawls.site"),
      cell: (crawl) => (
        <>
          <Link className="strong" to={`/crawls/${encodeURIComponent(crawl.task_id)}`}>
            {crawl.name || crawl.url}
          </Link>
          <div className="muted small cut crawl-url">{crawl.url}</div>
        </>
      ),
    },
    { title: t("tasks.project"), cell: (crawl) => <span className="muted">{crawl.project}</span> },
    { title: t("crawls.pages"), right: true, cell: ({ figures }) => count(figures?.pages ?? 0) },
    {
      title: t("crawls.rate"),
      right: true,
      cell: ({ figures }) =>
        figures && !figures.is_final ? (
          short(figures.rate_per_s ?? 0)
        ) : (
          <span className="muted">–</span>
        ),
    },
    {
      title: t("crawls.waiting"),
      right: true,
      cell: ({ figures }) => count(figures?.waiting ?? 0),
    },
    { title: t("crawls.items"), right: true, cell: ({ figures }) => count(figures?.items ?? 0) },
    { title: t("crawls.failed"), right: true, cell: ({ figures }) => count(figures?.failed ?? 0) },
    { title: t("crawls.bytes"), right: true, cell: ({ figures }) => bytes(figures?.bytes ?? 0) },
    since(t("crawls.started"), (crawl) => crawl.started_at ?? crawl.created_at),
  ];
}

export default function Crawls() {
  const t = useT();
  const { operates } = useVisitor();
  const [search] = useSearch();
  const status = search.get("status") ?? "";
  const found = usePages<CrawlView>(
    ["crawls", status],
    (cursor) =>
      call("get", "/api/v1/crawls", {
        query: { limit: 100, ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) },
      }),
    3000,
  );
  const columns = useColumns();
  return (
    <>
      <PageHead title={<h1>{t("nav.crawls")}</h1>}>
        {operates && (
          <Link className="button primary" to="/submit?type=web_crawl">
            <Icon name="submit" /> {t("crawls.begin")}
          </Link>
        )}
      </PageHead>
      <search className="filters">
        <StateSelect family="task" values={STATES} />
      </search>
      <Card flush>
        <Listing
          of={found}
          label={t("nav.crawls")}
          columns={columns}
          rowKey={(crawl) => crawl.task_id}
          filters={["status"]}
          empty={
            <Empty
              icon="crawls"
              title={t("crawls.emptyTitle")}
              command="crawlfleet submit web_crawl -p url=https://shop.example"
            >
              {t("crawls.emptyText")}{" "}
              <Link to="/submit?type=web_crawl">{t("tasks.emptyLink")}</Link>
            </Empty>
          }
        />
      </Card>
    </>
  );
}
