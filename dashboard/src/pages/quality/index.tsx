import { call } from "../../api/client";
import type { MeasuredRunView, SeriesView } from "../../generated/api";
import { useT } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { count } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { brokenChecks, seriesPath } from "../../lib/quality";
import { Link, useSearch } from "../../lib/router";
import { Card, Crumbs, Empty, PageHead } from "../../ui/basics";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import { type Column, since } from "../../ui/Table";
import { Series } from "./Series";

/** Of what was not as expected, in a list. */
const MOST_TOLD = 3;

function useColumns(): Column<SeriesView>[] {
  const t = useT();
  const { check } = useRetelling();
  const told = (run: MeasuredRunView) =>
    brokenChecks(run).slice(0, MOST_TOLD).map(check).join(t("explain.sum.semicolon")) ||
    run.summary;
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
          {newest.verdict === "ok" ? "" : told(newest)}
        </div>
      ),
    },
    since(t("quality.newest"), ({ newest }) => newest.at),
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
      <Listing
        of={found}
        label={t("nav.quality")}
        columns={columns}
        rowKey={(each) => `${each.project_id}/${each.series}`}
        empty={
          <Empty
            icon="quality"
            title={t("quality.emptyTitle")}
            command="crawlfleet submit web_crawl -p url=https://shop.example --expect @expected.yaml"
          >
            {t("quality.emptyText")}
          </Empty>
        }
      />
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
