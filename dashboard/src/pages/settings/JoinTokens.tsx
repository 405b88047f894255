import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { clusters, queryClient } from "../../api/queries";
import type { JoinTokenView, NewJoinToken } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { Ago, Button, Card, Command, Empty, Loaded } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { daysToSeconds, FormDialog, SecretDialog } from "../../ui/FormDialog";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { useComplain, useToast } from "../../ui/Toasts";

/** The line to paste on a new machine. */
function lineFor(secret: string, cluster: string | null | undefined): string {
  const where = cluster && cluster !== "default" ? ` --cluster ${cluster}` : "";
  return `CRAWLFLEET_JOIN_TOKEN=${secret} crawlfleet worker --master ${location.origin}${where}`;
}

export function JoinTokens() {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<NewJoinToken | null>(null);
  const [doomed, setDoomed] = useState<JoinTokenView | null>(null);
  const key = ["keys", "join"];
  const found = useQuery({ queryKey: key, queryFn: () => call("get", "/api/v1/join-tokens") });
  const known = useQuery(clusters);

  async function make(values: Record<string, string>): Promise<void> {
    const lifetime = daysToSeconds(values.days);
    const body = {
      ...(values.name ? { name: values.name } : {}),
      cluster_id: values.cluster_id || "default",
      uses: Number(values.uses) || 1,
      ...(lifetime ? { expires_in_s: lifetime } : {}),
    };
    setMade(await call("post", "/api/v1/join-tokens", { body }));
    setMaking(false);
    await queryClient.invalidateQueries({ queryKey: key });
  }

  async function revoke(token: JoinTokenView): Promise<void> {
    try {
      const path = { join_token_id: token.id };
      await call("post", "/api/v1/join-tokens/{join_token_id}:revoke", { path });
      toast({ tone: "ok", text: t("keys.revoked", { name: token.name }) });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: key });
  }

  const columns: Column<JoinTokenView>[] = [
    { title: t("common.name"), cell: (token) => <span className="strong">{token.name}</span> },
    { title: t("nodes.cluster"), cell: (token) => token.cluster_id ?? t("keys.all") },
    { title: t("tasks.state"), cell: (token) => <State family="other" name={token.status} /> },
    {
      title: t("join.uses"),
      right: true,
      cell: (token) =>
        token.max_uses ? `${count(token.uses ?? 0)} / ${count(token.max_uses)}` : "–",
    },
    {
      title: t("keys.expires"),
      cell: (token) => (token.expires_at ? <Ago at={token.expires_at} /> : "–"),
    },
    {
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (token) =>
        token.status === "live" && (
          <Button size="small" look="danger" onClick={() => setDoomed(token)}>
            {t("keys.revoke")}
          </Button>
        ),
    },
  ];
  return (
    <Card
      title={t("settings.join-tokens")}
      flush
      aside={
        <Button look="primary" size="small" icon="submit" onClick={() => setMaking(true)}>
          {t("join.make")}
        </Button>
      }
    >
      <Loaded of={found}>
        {({ items }) =>
          items.length > 0 ? (
            <Table
              label={t("settings.join-tokens")}
              columns={columns}
              rows={items}
              rowKey={(token) => token.id}
            />
          ) : (
            <Empty icon="key" title={t("join.emptyTitle")} command="crawlfleet join-tokens create">
              {t("join.emptyText")}
            </Empty>
          )
        }
      </Loaded>
      {making && (
        <FormDialog
          title={t("join.make")}
          verb={t("join.make")}
          onClose={() => setMaking(false)}
          onSubmit={make}
          asks={[
            { name: "name", label: t("common.name") },
            {
              name: "cluster_id",
              label: t("nodes.cluster"),
              options: (known.data?.items ?? []).map((each) => [each.id, each.name]),
            },
            {
              name: "uses",
              label: t("join.uses"),
              hint: t("join.usesHint"),
              type: "number",
              value: "1",
            },
            { name: "days", label: t("keys.days"), type: "number", value: "1" },
          ]}
        />
      )}
      {doomed && (
        <Confirm
          title={t("keys.revoke.ask", { name: doomed.name })}
          text={t("join.revokeText")}
          verb={t("keys.revoke")}
          danger
          onConfirm={() => revoke(doomed)}
          onClose={() => setDoomed(null)}
        />
      )}
      {made && (
        <SecretDialog
          title={t("join.made")}
          text={t("secret.once")}
          secret={made.secret}
          onClose={() => setMade(null)}
        >
          <div className="stack tight">
            <span className="strong">{t("join.line")}</span>
            <Command text={lineFor(made.secret, made.join_token.cluster_id)} />
            <span className="muted small">{t("join.lineHint")}</span>
          </div>
        </SecretDialog>
      )}
    </Card>
  );
}
