import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { bundle as bundleQuery, queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { BundleVersionView, BundleView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { Link, matchPath, navigate, usePlace } from "../../lib/router";
import { Button, Card, Chip, CopyButton, Crumbs, Loaded, PageHead } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { type Column, Table } from "../../ui/Table";
import { useComplain, useToast } from "../../ui/Toasts";
import { Deployed, ReadyOn, Size, Spiders } from "../bundles/parts";
import { Upload } from "../bundles/Upload";

type Verb = "rollback" | "remove";
type Asked = { verb: Verb; version: number };

function verbFor(version: BundleVersionView, bundle: BundleView) {
  return version.version < bundle.current ? "bundles.rollback" : "bundles.forward";
}

function useColumns(bundle: BundleView, ask: (asked: Asked) => void): Column<BundleVersionView>[] {
  const t = useT();
  const word = useWord();
  const { operates } = useVisitor();
  return [
    {
      title: t("bundles.version"),
      cell: (each) => (
        <>
          <span className="row tight nowrap">
            <span className="mono strong">@{each.version}</span>
            {each.version === bundle.current && <Chip tone="ok">{t("bundles.present")}</Chip>}
          </span>
          {each.note && <div className="muted small breaks">{each.note}</div>}
        </>
      ),
    },
    { title: t("bundles.kind"), cell: (each) => word("bundleKind", each.kind) },
    {
      title: t("bundles.spiders"),
      cell: (each) => <Spiders names={each.spiders ?? []} most={12} />,
    },
    { title: t("bundles.size"), cell: (each) => <Size version={each} /> },
    { title: t("bundles.deployedBy"), cell: (each) => <Deployed version={each} /> },
    { title: t("bundles.readyOn"), cell: (each) => <ReadyOn version={each} /> },
    {
      title: t("bundles.digest"),
      cell: (each) => (
        <span className="row tight nowrap">
          <span className="mono small" title={each.digest}>
            {each.digest.slice(0, 12)}
          </span>
          <CopyButton text={each.digest} label={t("bundles.copyDigest", { n: each.version })} />
        </span>
      ),
    },
    {
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) =>
        operates && (
          <span className="row tight nowrap end">
            {each.version !== bundle.current && (
              <Button
                size="small"
                onClick={() => ask({ verb: "rollback", version: each.version })}
                aria-label={`${t(verbFor(each, bundle))} @${each.version}`}
              >
                {t(verbFor(each, bundle))}
              </Button>
            )}
            {(each.version !== bundle.current || bundle.versions.length === 1) && (
              <Button
                size="small"
                look="danger"
                onClick={() => ask({ verb: "remove", version: each.version })}
                aria-label={t("bundles.remove.of", { n: each.version })}
              >
                {t("bundles.remove")}
              </Button>
            )}
          </span>
        ),
    },
  ];
}

function Shown({ bundle }: { bundle: BundleView }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [asked, ask] = useState<Asked | null>(null);
  const columns = useColumns(bundle, ask);
  const present = bundle.versions.find((each) => each.version === bundle.current);
  const type = present?.kind === "scrapy" || present?.spiders?.length ? "scrapy_spider" : "command";
  const submit = new URLSearchParams({ type, bundle: bundle.name });
  if (bundle.project_id !== "default") submit.set("project", bundle.project_id);

  async function order({ verb, version }: Asked): Promise<void> {
    try {
      const path = { project_id: bundle.project_id, bundle_id: bundle.name };
      const left = await call("post", `/api/v1/projects/{project_id}/bundles/{bundle_id}:${verb}`, {
        path,
        body: { version },
      });
      toast({ tone: "ok", text: t(`bundles.${verb}.done`, { n: version }) });
      if (left.versions.length === 0) navigate("/bundles");
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["bundles"] });
  }

  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">{bundle.name}</h1>
            <Chip>{bundle.project_id}</Chip>
          </>
        }
      >
        {operates && (
          <Link className="button primary" to={`/submit?${submit}`}>
            <Icon name="play" /> {t("bundles.run")}
          </Link>
        )}
      </PageHead>
      <div className="stack">
        {operates && <Upload projectId={bundle.project_id} name={bundle.name} />}
        <Card title={t("bundles.versionsTitle")} flush>
          <Table
            label={t("bundles.versionsTitle")}
            columns={columns}
            rows={bundle.versions}
            rowKey={(each) => String(each.version)}
          />
        </Card>
        <p className="muted small">{t("bundles.pinned")}</p>
      </div>
      {asked && (
        <Confirm
          title={t(`bundles.${asked.verb}.ask`, { name: bundle.name, n: asked.version })}
          text={t(`bundles.${asked.verb}.text`)}
          verb={t(`bundles.${asked.verb}`)}
          danger={asked.verb === "remove"}
          onConfirm={() => order(asked)}
          onClose={() => ask(null)}
        />
      )}
    </>
  );
}

export default function BundlePage() {
  const t = useT();
  const { path } = usePlace();
  const { project = "", name = "" } = matchPath("/bundles/{project}/{name}", path) ?? {};
  const found = useQuery(bundleQuery(project, name));
  return (
    <>
      <Crumbs to={`/bundles?project=${encodeURIComponent(project)}`} parent={t("nav.bundles")} />
      <Loaded of={found} rows={8}>
        {(bundle) => <Shown bundle={bundle} />}
      </Loaded>
    </>
  );
}
