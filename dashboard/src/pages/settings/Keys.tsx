import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { projects, queryClient } from "../../api/queries";
import type { KeyView, NewKey } from "../../generated/api";
import { useT } from "../../i18n";
import { Ago, Button, Card, Chip, Loaded } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { daysToSeconds, FormDialog, SecretDialog } from "../../ui/FormDialog";
import { State } from "../../ui/State";
import { type Column, Table } from "../../ui/Table";
import { useComplain, useToast } from "../../ui/Toasts";

type Asked = { kind: "make" } | { kind: "rotate" | "revoke"; key: KeyView } | null;

export function Keys() {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const [asked, setAsked] = useState<Asked>(null);
  const [made, setMade] = useState<NewKey | null>(null);
  const found = useQuery({ queryKey: ["keys"], queryFn: () => call("get", "/api/v1/keys") });
  const known = useQuery(projects);
  const renew = () => queryClient.invalidateQueries({ queryKey: ["keys"] });

  async function make(values: Record<string, string>): Promise<void> {
    const lifetime = daysToSeconds(values.days);
    const body = {
      name: values.name ?? "",
      role: values.role as "viewer" | "operator" | "admin",
      ...(values.project_id ? { project_id: values.project_id } : {}),
      ...(lifetime ? { expires_in_s: lifetime } : {}),
    };
    setMade(await call("post", "/api/v1/keys", { body }));
    setAsked(null);
    await renew();
  }

  async function rotate(key: KeyView): Promise<void> {
    setMade(
      await call("post", "/api/v1/keys/{key_id}:rotate", { path: { key_id: key.id }, body: {} }),
    );
    await renew();
  }

  async function revoke(key: KeyView): Promise<void> {
    try {
      await call("post", "/api/v1/keys/{key_id}:revoke", { path: { key_id: key.id } });
      toast({ tone: "ok", text: t("keys.revoked", { name: key.name }) });
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  const columns: Column<KeyView>[] = [
    { title: t("common.name"), cell: (key) => <span className="strong">{key.name}</span> },
    { title: t("keys.role"), cell: (key) => <Chip>{key.role}</Chip> },
    { title: t("tasks.project"), cell: (key) => key.project_id ?? t("keys.all") },
    { title: t("tasks.state"), cell: (key) => <State family="other" name={key.status} /> },
    {
      title: t("keys.used"),
      cell: (key) => (
        <span className="muted">
          <Ago at={key.last_used_at} /> <span className="small">{key.last_used_from}</span>
        </span>
      ),
    },
    {
      title: t("keys.expires"),
      cell: (key) => (key.expires_at ? <Ago at={key.expires_at} /> : "–"),
    },
    {
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (key) =>
        key.status === "live" && (
          <div className="row">
            <Button size="small" onClick={() => setAsked({ kind: "rotate", key })}>
              {t("keys.rotate")}
            </Button>
            <Button size="small" look="danger" onClick={() => setAsked({ kind: "revoke", key })}>
              {t("keys.revoke")}
            </Button>
          </div>
        ),
    },
  ];
  return (
    <Card
      title={t("settings.keys")}
      flush
      aside={
        <Button
          look="primary"
          size="small"
          icon="submit"
          onClick={() => setAsked({ kind: "make" })}
        >
          {t("keys.make")}
        </Button>
      }
    >
      <Loaded of={found}>
        {({ items }) => (
          <Table
            label={t("settings.keys")}
            columns={columns}
            rows={items}
            rowKey={(key) => key.id}
          />
        )}
      </Loaded>
      {asked?.kind === "make" && (
        <FormDialog
          title={t("keys.make")}
          verb={t("keys.make")}
          onClose={() => setAsked(null)}
          onSubmit={make}
          asks={[
            { name: "name", label: t("common.name"), hint: t("keys.nameHint"), required: true },
            {
              name: "role",
              label: t("keys.role"),
              options: [
                ["viewer", t("keys.viewer")],
                ["operator", t("keys.operator")],
                ["admin", t("keys.admin")],
              ],
            },
            {
              name: "project_id",
              label: t("tasks.project"),
              options: [
                ["", t("keys.all")],
                ...(known.data?.items ?? []).map((each): [string, string] => [each.id, each.name]),
              ],
            },
            { name: "days", label: t("keys.days"), hint: t("keys.daysHint"), type: "number" },
          ]}
        />
      )}
      {asked && asked.kind !== "make" && (
        <Confirm
          title={t(`keys.${asked.kind}.ask`, { name: asked.key.name })}
          text={t(`keys.${asked.kind}.text`)}
          verb={t(`keys.${asked.kind}`)}
          danger={asked.kind === "revoke"}
          onConfirm={() => (asked.kind === "rotate" ? rotate(asked.key) : revoke(asked.key))}
          onClose={() => setAsked(null)}
        />
      )}
      {made && (
        <SecretDialog
          title={t("keys.made", { name: made.key.name })}
          text={t("secret.once")}
          secret={made.secret}
          onClose={() => setMade(null)}
        />
      )}
    </Card>
  );
}
