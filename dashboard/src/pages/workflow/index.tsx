import { useQuery } from "@tanstack/react-query";
import { workflow as workflowQuery } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { WorkflowView } from "../../generated/api";
import { useT } from "../../i18n";
import { Link, matchPath, usePlace, useSearch } from "../../lib/router";
import { Chip, Crumbs, Empty, Loaded, PageHead } from "../../ui/basics";
import { Icon } from "../../ui/Icon";
import { Tabs } from "../../ui/Tabs";
import { RunTable } from "../workflows/RunTable";
import { Document } from "./Document";
import { Start } from "./Start";

function Shown({ workflow }: { workflow: WorkflowView }) {
  const t = useT();
  const { path } = usePlace();
  const { operates } = useVisitor();
  const [search] = useSearch();
  const tab = search.get("tab") ?? "runs";
  return (
    <>
      <PageHead
        title={
          <>
            <h1 className="breaks">{workflow.name}</h1>
            <Chip>{t("flow.versionNumber", { n: workflow.latest })}</Chip>
            <span className="muted">{workflow.project_id}</span>
          </>
        }
      >
        {operates && tab !== "start" && (
          <Link className="button primary" to={`${path}?tab=start`}>
            <Icon name="play" /> {t("flow.start")}
          </Link>
        )}
      </PageHead>
      {workflow.description && <p className="muted lead">{workflow.description}</p>}
      <Tabs
        label={t("nav.workflows")}
        current={tab}
        tabs={[
          ["runs", t("flow.runs")],
          ["document", t("flow.document")],
          ...(operates ? [["start", t("flow.start")] as [string, string]] : []),
        ]}
      />
      {tab === "document" ? (
        <Document workflow={workflow} />
      ) : tab === "start" && operates ? (
        <Start workflow={workflow} />
      ) : (
        <RunTable
          workflowId={workflow.id}
          empty={
            <Empty
              icon="workflows"
              title={t("flow.neverTitle")}
              command={`crawlfleet workflows start ${workflow.name} --wait`}
            >
              {t("flow.neverText")}
            </Empty>
          }
        />
      )}
    </>
  );
}

export default function WorkflowPage() {
  const t = useT();
  const { path } = usePlace();
  const id = matchPath("/workflows/{id}", path)?.id ?? "";
  const found = useQuery(workflowQuery(id));
  return (
    <>
      <Crumbs to="/workflows" parent={t("nav.workflows")} />
      <Loaded of={found} rows={8}>
        {(workflow) => <Shown workflow={workflow} />}
      </Loaded>
    </>
  );
}
