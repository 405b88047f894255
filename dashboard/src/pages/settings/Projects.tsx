import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { projects, queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { ProjectView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { count } from "../../lib/format";
import { Link } from "../../lib/router";
import { Ago, Button, Card, Loaded } from "../../ui/basics";
import { FormDialog } from "../../ui/FormDialog";
import { Mark, State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { useComplain } from "../../ui/Toasts";

export function Projects() {
  const t = useT();
  const word = useWord();
  const complain = useComplain();
  const { administers } = useVisitor();
  const [making, setMaking] = useState(false);
  const found = useQuery(projects);
  const renew = () => queryClient.invalidateQueries({ queryKey: ["projects"] });

  async function move(project: ProjectView): Promise<void> {
    const verb = project.status === "active" ? "close" : "reopen";
    try {
      const path = { project_id: project.id };
      await call("post", `/api/v1/projects/{project_id}:${verb}`, { path });
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  const columns: Column<ProjectView>[] = [
    {
      title: t("tasks.project"),
      cell: (project) => (
        <>
          <Link className="strong" to={`/tasks?project=${encodeURIComponent(project.id)}`}>
            {project.name}
          </Link>
          <div className="muted small">{project.description || project.id}</div>
        </>
      ),
    },
    { title: t("tasks.state"), cell: (project) => <State family="other" name={project.status} /> },
    {
      title: t("nav.tasks"),
      cell: (project) => (
        <div className="row wrap">
          {Object.entries(project.tasks).map(([state, n]) => (
            <span key={state} className="state" title={word("task", state)}>
              <Mark family="task" name={state} /> {count(n)}
              <span className="hidden-text">{word("task", state)}</span>
            </span>
          ))}
        </div>
      ),
    },
    {
      title: t("projects.made"),
      cell: (project) => (
        <span className="muted">
          <Ago at={project.created_at} />
        </span>
      ),
    },
    {
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (project) =>
        administers &&
        project.id !== "default" && (
          <Button size="small" onClick={() => void move(project)}>
            {project.status === "active" ? t("clusters.close") : t("clusters.reopen")}
          </Button>
        ),
    },
  ];
  return (
    <Card
      title={t("settings.projects")}
      flush
      aside={
        administers && (
          <Button look="primary" size="small" icon="submit" onClick={() => setMaking(true)}>
            {t("projects.make")}
          </Button>
        )
      }
    >
      <Loaded of={found}>
        {({ items }) => (
          <Table
            label={t("settings.projects")}
            columns={columns}
            rows={items}
            rowKey={(project) => project.id}
          />
        )}
      </Loaded>
      {making && (
        <FormDialog
          title={t("projects.make")}
          verb={t("projects.make")}
          onClose={() => setMaking(false)}
          onSubmit={async (values) => {
            const { id = "", name = "", description = "" } = values;
            await call("post", "/api/v1/projects", { body: { id, name, description } });
            setMaking(false);
            await renew();
          }}
          asks={[
            { name: "id", label: t("common.id"), hint: t("clusters.idHint"), required: true },
            { name: "name", label: t("common.name") },
            { name: "description", label: t("common.description") },
          ]}
        />
      )}
    </Card>
  );
}
