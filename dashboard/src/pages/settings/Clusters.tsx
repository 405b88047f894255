import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { clusters, projects, queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { ClusterView } from "../../generated/api";
import { useT } from "../../i18n";
import { useRetelling } from "../../i18n/retelling";
import { count, span } from "../../lib/format";
import { Link } from "../../lib/router";
import { Button, Card, Chip, Coded, Loaded } from "../../ui/basics";
import { FormDialog } from "../../ui/FormDialog";
import { Icon } from "../../ui/Icon";
import { State } from "../../ui/State";
import { useComplain } from "../../ui/Toasts";

const SETTINGS = [
  "default_strategy",
  "heartbeat_interval_s",
  "session_timeout_s",
  "log_level",
  "max_slots",
] as const;
/** The project whose clusters all projects use. */
const SHARED = "default";
const NUMBERS = new Set<string>(["heartbeat_interval_s", "session_timeout_s", "max_slots"]);

/** What was typed, as settings; what was emptied is taken back. */
function settingsOf(values: Record<string, string>): Record<string, string | number | null> {
  return Object.fromEntries(
    SETTINGS.map((name) => {
      const text = values[name]?.trim() ?? "";
      return [name, text === "" ? null : NUMBERS.has(name) ? Number(text) : text];
    }),
  );
}

function Health({ id }: { id: string }) {
  const t = useT();
  const { trouble: retold } = useRetelling();
  const found = useQuery({
    queryKey: ["clusters", id, "health"],
    queryFn: () =>
      call("get", "/api/v1/clusters/{cluster_id}/health", { path: { cluster_id: id } }),
    refetchInterval: 10_000,
  });
  return (
    <Loaded of={found} rows={3}>
      {(health) => (
        <div className="stack tight">
          <div className="row wrap">
            <State family="health" name={health.health} />
            <span className="muted">
              {t("clusters.nodes", { n: count(health.nodes.online ?? 0) })} ·{" "}
              {t("clusters.ready", { n: count(health.ready) })}
              {health.oldest_ready_s === null
                ? ""
                : ` · ${t("overview.oldest", { age: span(health.oldest_ready_s) })}`}
            </span>
          </div>
          {health.troubles.map((trouble) => (
            <div
              key={trouble.message}
              className={`notice ${trouble.severity === "critical" ? "bad" : "warn"}`}
            >
              <Icon name="warning" />
              <span>
                <span className="strong">{retold(trouble).message}</span>
                <br />
                <Coded text={retold(trouble).remedy} />
              </span>
            </div>
          ))}
        </div>
      )}
    </Loaded>
  );
}

function ClusterCard({ cluster }: { cluster: ClusterView }) {
  const t = useT();
  const complain = useComplain();
  const { administers } = useVisitor();
  const [editing, setEditing] = useState(false);
  const path = { cluster_id: cluster.id };
  const renew = () => queryClient.invalidateQueries({ queryKey: ["clusters"] });

  async function move(verb: "close" | "reopen"): Promise<void> {
    try {
      await call("post", `/api/v1/clusters/{cluster_id}:${verb}`, { path });
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  const set = Object.entries(cluster.configuration).filter(([, value]) => value != null);
  return (
    <Card
      title={
        <>
          {cluster.name} <State family="other" name={cluster.status} />
        </>
      }
      aside={
        administers && (
          <div className="row">
            <Button size="small" onClick={() => setEditing(true)}>
              {t("clusters.change")}
            </Button>
            {cluster.status === "active" ? (
              <Button size="small" look="danger" onClick={() => void move("close")}>
                {t("clusters.close")}
              </Button>
            ) : (
              <Button size="small" onClick={() => void move("reopen")}>
                {t("clusters.reopen")}
              </Button>
            )}
          </div>
        )
      }
    >
      <div className="stack tight">
        {cluster.description && <p className="muted">{cluster.description}</p>}
        <Health id={cluster.id} />
        <div className="row wrap">
          <Link to={`/nodes?cluster=${encodeURIComponent(cluster.id)}`}>{t("nav.nodes")}</Link>
          <span className="muted">
            {cluster.project_id === SHARED
              ? t("clusters.shared")
              : t("clusters.of", { project: cluster.project_id })}
          </span>
          <span className="muted">
            {t("clusters.version", { n: cluster.configuration_version })}
          </span>
          {set.map(([name, value]) => (
            <Chip key={name}>
              {name} = {String(value)}
            </Chip>
          ))}
        </div>
      </div>
      {editing && (
        <FormDialog
          title={t("clusters.changeOf", { name: cluster.name })}
          verb={t("common.save")}
          onClose={() => setEditing(false)}
          onSubmit={async (values) => {
            await call("patch", "/api/v1/clusters/{cluster_id}", {
              path,
              body: {
                name: values.name ?? "",
                description: values.description ?? "",
                configuration: settingsOf(values) as never,
              },
            });
            setEditing(false);
            await renew();
          }}
          asks={[
            { name: "name", label: t("common.name"), value: cluster.name },
            { name: "description", label: t("common.description"), value: cluster.description },
            ...SETTINGS.map((name) => ({
              name,
              label: name,
              hint: t("clusters.fleet"),
              value: String(cluster.configuration[name] ?? ""),
            })),
          ]}
        />
      )}
    </Card>
  );
}

export function Clusters() {
  const t = useT();
  const { administers } = useVisitor();
  const [making, setMaking] = useState(false);
  const found = useQuery(clusters);
  const known = useQuery(projects);
  return (
    <div className="stack">
      {administers && (
        <div>
          <Button look="primary" icon="submit" onClick={() => setMaking(true)}>
            {t("clusters.make")}
          </Button>
        </div>
      )}
      <Loaded of={found}>
        {({ items }) => items.map((cluster) => <ClusterCard key={cluster.id} cluster={cluster} />)}
      </Loaded>
      {making && (
        <FormDialog
          title={t("clusters.make")}
          verb={t("clusters.make")}
          onClose={() => setMaking(false)}
          onSubmit={async (values) => {
            const body = {
              id: values.id ?? "",
              project_id: values.project_id || "default",
              description: values.description ?? "",
            };
            await call("post", "/api/v1/clusters", { body });
            setMaking(false);
            await queryClient.invalidateQueries({ queryKey: ["clusters"] });
          }}
          asks={[
            { name: "id", label: t("common.id"), hint: t("clusters.idHint"), required: true },
            {
              name: "project_id",
              label: t("tasks.project"),
              hint: t("clusters.projectHint"),
              options: (known.data?.items ?? []).map((each) => [each.id, each.name]),
            },
            { name: "description", label: t("common.description") },
          ]}
        />
      )}
    </div>
  );
}
