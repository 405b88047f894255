import { call } from "../../api/client";
import type { SeriesView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { seriesPath } from "../../lib/quality";
import { Link, useSearch } from "../../lib/router";
import { Ago, Button, Card, Crumbs, Empty, Loaded, PageHead } from "../../ui/basics";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { Series } from "./Series";

function useColumns(): Column<SeriesView>[] {
  const t = useT();
  return [
    {
      title: t("tasks.state"),
      cell: ({ newest }) => (
        <State family="measured" name={newest.decision === "held" ? "held" : newest.verdict} />
      ),
    },
    {
      title: t("quality.series"),
      cell: (each) => (
        <>
          <Link className="strong" to={seriesPath(each.project_id, each.series)}>
            {each.series === "-" ? t("quality.alone") : each.series}
          </Link>
          <div className="muted small">{each.project_id}</div>
        </>
      ),
    },
    {
      title: t("quality.items"),
      right: true,
      cell: ({ newest }) => (newest.items === null ? "–" : count(newest.items)),
    },
    {
      title: t("flow.reason"),
      cell: ({ newest }) => (
        <div className="muted small reason breaks">
          {newest.verdict === "ok" ? "" : newest.summary}
        </div>
      ),
    },
    {
      title: t("quality.newest"),
      right: true,
      cell: ({ newest }) => (
        <span className="muted small">
          <Ago at={newest.at} />
        </span>
      ),
    },
  ];
}

function List() {
  const t = useT();
  const columns = useColumns();
  const found = usePages<SeriesView>(
    ["quality"],
    (cursor) =>
      call("get", "/api/v1/quality", { query: { limit: 100, ...(cursor ? { cursor } : {}) } }),
    15_000,
  );
  return (
    <Card flush>
      <Loaded of={found} rows={6}>
        {(series) =>
          series.length > 0 ? (
            <Table
              label={t("nav.quality")}
              columns={columns}
              rows={series}
              rowKey={(each) => `${each.project_id}/${each.series}`}
            />
          ) : (
            <Empty
              icon="quality"
              title={t("quality.emptyTitle")}
              command="crawlfleet submit web_crawl -p url=https://shop.example --expect @expected.yaml"
            >
              {t("quality.emptyText")}
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
  );
}

export default function Quality() {
  const t = useT();
  const [search] = useSearch();
  const series = search.get("series");
  const project = search.get("project") ?? "default";
  if (series === null) {
    return (
      <>
        <PageHead title={<h1>{t("nav.quality")}</h1>} />
        <List />
      </>
    );
  }
  return (
    <>
      <Crumbs to="/quality" parent={t("nav.quality")} />
      <PageHead
        title={
          <>
            <h1 className="breaks">{series === "-" ? t("quality.alone") : series}</h1>
            <span className="muted">{project}</span>
          </>
        }
      />
      <Series project={project} series={series} />
    </>
  );
}
