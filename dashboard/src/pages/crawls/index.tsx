import { call } from "../../api/client";
import { useVisitor } from "../../app/session";
import type { CrawlView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { bytes, count, short } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { Link, useSearch } from "../../lib/router";
import { STATES } from "../../lib/taskFilter";
import { Ago, Button, Card, Empty, Loaded, PageHead } from "../../ui/basics";
import { Icon } from "../../ui/Icon";
import { SelectFilter } from "../../ui/SelectFilter";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";

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
    {
      title: t("crawls.started"),
      right: true,
      cell: (crawl) => (
        <span className="muted small">
          <Ago at={crawl.started_at ?? crawl.created_at} />
        </span>
      ),
    },
  ];
}

export default function Crawls() {
  const t = useT();
  const word = useWord();
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
        <SelectFilter
          name="status"
          label={t("tasks.state")}
          values={STATES}
          word={(state) => word("task", state)}
        />
      </search>
      <Card flush>
        <Loaded of={found} rows={8}>
          {(crawls) =>
            crawls.length > 0 ? (
              <Table
                label={t("nav.crawls")}
                columns={columns}
                rows={crawls}
                rowKey={(crawl) => crawl.task_id}
              />
            ) : status ? (
              <Empty icon="search" title={t("common.nothingFits")}>
                <Link to="/crawls">{t("common.clearFilters")}</Link>
              </Empty>
            ) : (
              <Empty
                icon="crawls"
                title={t("crawls.emptyTitle")}
                command="crawlfleet submit web_crawl -p url=https://shop.example"
              >
                {t("crawls.emptyText")}{" "}
                <Link to="/submit?type=web_crawl">{t("tasks.emptyLink")}</Link>
              </Empty>
            )
          }
        </Loaded>
        {found.hasNextPage && (
          <p className="card-body">
            <Button onClick={() => void found.fetchNextPage()}>{t("common.older")}</Button>
          </p>
        )}
      </Card>
    </>
  );
}
