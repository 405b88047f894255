import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call } from "../../api/client";
import { workflowDocument } from "../../api/queries";
import type { VersionView, WorkflowDocument, WorkflowView } from "../../generated/api";
import { useT } from "../../i18n";
import { usePages } from "../../lib/pages";
import { Link, usePlace, useSearch, withSearch } from "../../lib/router";
import { MOST_DRAWN, plannedSteps } from "../../lib/steps";
import { Card, Chip, Loaded } from "../../ui/basics";
import { Graph } from "../../ui/graph/Graph";
import { Json } from "../../ui/Json";
import { Listing } from "../../ui/Listing";
import { type Column, since } from "../../ui/Table";

function Versions({ workflow, shown }: { workflow: WorkflowView; shown: number }) {
  const t = useT();
  const { path, search } = usePlace();
  const found = usePages<VersionView>(["workflows", workflow.id, "versions"], (cursor) =>
    call("get", "/api/v1/workflows/{workflow_id}/versions", {
      path: { workflow_id: workflow.id },
      query: { limit: 20, ...(cursor ? { cursor } : {}) },
    }),
  );
  const columns: Column<VersionView>[] = [
    {
      title: t("flow.version"),
      cell: (each) => (
        <span className="row tight">
          <Link
            className="strong"
            to={`${path}${withSearch(search, { version: String(each.number), step: null })}`}
            aria-current={each.number === shown ? "true" : undefined}
          >
            {t("flow.versionNumber", { n: each.number })}
          </Link>
          {each.number === shown && <Chip tone="busy">{t("flow.shown")}</Chip>}
        </span>
      ),
    },
    { title: t("flow.madeBy"), cell: (each) => <span className="muted">{each.made_by}</span> },
    since(t("projects.made"), (each) => each.created_at),
  ];
  return (
    <Card title={t("flow.versions")} flush>
      <Listing
        of={found}
        label={t("flow.versions")}
        columns={columns}
        rowKey={(each) => String(each.number)}
        empty={null}
      />
    </Card>
  );
}

function Plan({ document }: { document: WorkflowDocument }) {
  const t = useT();
  const [search, change] = useSearch();
  const steps = useMemo(() => plannedSteps(document), [document]);
  const name = search.get("step");
  const step = name ? document.steps[name] : undefined;
  return (
    <Card title={t("flow.graph")}>
      <div className="stack">
        <Graph
          label={t("flow.graphOf", { name: document.name })}
          steps={steps}
          chosen={name}
          onChoose={(chosen) => change({ step: chosen })}
        />
        {name && step && (
          <section className="stack tight" aria-label={name}>
            <h3 className="breaks">{name}</h3>
            {step.description && <p className="muted">{step.description}</p>}
            <Json value={step} label={t("flow.stepNamed", { name })} />
          </section>
        )}
      </div>
    </Card>
  );
}

/** A version of the document: as a graph, and as it was handed in. */
export function Document({ workflow }: { workflow: WorkflowView }) {
  const t = useT();
  const [search] = useSearch();
  const asked = Number(search.get("version"));
  const version = asked >= 1 && asked <= workflow.latest ? asked : workflow.latest;
  const found = useQuery(workflowDocument(workflow.id, version));
  return (
    <div className="grid">
      <div className="span-8 stack">
        <Loaded of={found} rows={10}>
          {({ document }) =>
            document && (
              <>
                {Object.keys(document.steps).length <= MOST_DRAWN && <Plan document={document} />}
                <Card title={t("flow.document")}>
                  <Json value={document} label={t("flow.document")} />
                </Card>
              </>
            )
          }
        </Loaded>
      </div>
      <div className="span-4 stack">
        <Versions workflow={workflow} shown={version} />
      </div>
    </div>
  );
}
