import { useQuery } from "@tanstack/react-query";
import { bundles, projects } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { BundleVersionView, BundleView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { Link, useSearch } from "../../lib/router";
import { Card, Chip, Empty, Loaded, PageHead } from "../../ui/basics";
import { type Column, Table } from "../../ui/Table";
import { Deployed, ReadyOn, Size, Spiders } from "./parts";
import { Upload } from "./Upload";

type Row = { bundle: BundleView; present: BundleVersionView };

function presentOf(bundle: BundleView): BundleVersionView | undefined {
  return bundle.versions.find((each) => each.version === bundle.current) ?? bundle.versions[0];
}

function useColumns(): Column<Row>[] {
  const t = useT();
  const word = useWord();
  return [
    {
      title: t("bundles.bundle"),
      cell: ({ bundle }) => (
        <>
          <Link
            className="strong"
            to={`/bundles/${encodeURIComponent(bundle.project_id)}/${encodeURIComponent(bundle.name)}`}
          >
            {bundle.name}
          </Link>
          <div className="muted small nowrap">
            {t("bundles.versions", { n: bundle.versions.length })}
          </div>
        </>
      ),
    },
    {
      title: t("bundles.present"),
      cell: ({ bundle, present }) => (
        <span className="row tight nowrap">
          <span className="mono">@{bundle.current}</span>
          <Chip>{word("bundleKind", present.kind)}</Chip>
        </span>
      ),
    },
    {
      title: t("bundles.spiders"),
      cell: ({ present }) => <Spiders names={present.spiders ?? []} most={4} />,
    },
    { title: t("bundles.size"), cell: ({ present }) => <Size version={present} /> },
    { title: t("bundles.deployedBy"), cell: ({ present }) => <Deployed version={present} /> },
    { title: t("bundles.readyOn"), cell: ({ present }) => <ReadyOn version={present} /> },
  ];
}

/** The project whose bundles are shown: the one in the address, or the visitor's own. */
function useProject(): string {
  const { session } = useVisitor();
  const [search] = useSearch();
  return search.get("project") ?? session.projects?.[0] ?? "default";
}

function ProjectChoice({ value }: { value: string }) {
  const t = useT();
  const [, change] = useSearch();
  const found = useQuery(projects);
  const ids = found.data?.items.map((each) => each.id) ?? [];
  const options = ids.includes(value) ? ids : [value, ...ids];
  return (
    <select
      className="select auto"
      aria-label={t("tasks.project")}
      value={value}
      onChange={(event) => change({ project: event.target.value })}
    >
      {options.map((id) => (
        <option key={id} value={id}>
          {t("tasks.project")}: {id}
        </option>
      ))}
    </select>
  );
}

export default function Bundles() {
  const t = useT();
  const { operates } = useVisitor();
  const project = useProject();
  const found = useQuery(bundles(project));
  const columns = useColumns();
  return (
    <>
      <PageHead title={<h1>{t("nav.bundles")}</h1>} />
      <search className="filters">
        <ProjectChoice value={project} />
      </search>
      <div className="stack">
        {operates && <Upload projectId={project} />}
        <Card flush>
          <Loaded of={found} rows={6}>
            {({ items }) => {
              const rows = items.flatMap((bundle) => {
                const present = presentOf(bundle);
                return present ? [{ bundle, present }] : [];
              });
              return rows.length > 0 ? (
                <Table
                  label={t("nav.bundles")}
                  columns={columns}
                  rows={rows}
                  rowKey={({ bundle }) => bundle.name}
                />
              ) : (
                <Empty
                  icon="bundles"
                  title={t("bundles.emptyTitle")}
                  command="crawlfleet deploy ./my_scrapy_project"
                >
                  {t("bundles.emptyText")}
                </Empty>
              );
            }}
          </Loaded>
        </Card>
      </div>
    </>
  );
}
