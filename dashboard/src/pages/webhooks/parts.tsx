/** What both pages about webhooks show and order. */
import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { NewWebhook, WebhookView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { span } from "../../lib/format";
import { navigate } from "../../lib/router";
import { Button, Chip } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { SecretDialog } from "../../ui/FormDialog";
import { useComplain, useToast } from "../../ui/Toasts";

/** Which events it is told. */
export function Wants({ webhook }: { webhook: WebhookView }) {
  const t = useT();
  const word = useWord();
  const only = [
    ...webhook.kinds,
    ...(webhook.project_id ? [`${t("tasks.project")}: ${webhook.project_id}`] : []),
    ...(webhook.node_id ? [`${t("tasks.node")}: ${webhook.node_id}`] : []),
    ...(webhook.task_type ? [`${t("tasks.type")}: ${webhook.task_type}`] : []),
  ];
  return (
    <span className="row wrap tight">
      {webhook.format !== "events" && <Chip tone="busy">{word("hookFormat", webhook.format)}</Chip>}
      {only.length > 0 ? (
        only.map((each) => (
          <Chip key={each}>
            <span className="cut">{each}</span>
          </Chip>
        ))
      ) : (
        <span className="muted">{t("hooks.everything")}</span>
      )}
    </span>
  );
}

type Verb = "pause" | "resume" | "remove";

export function WebhookActions({ webhook, brief }: { webhook: WebhookView; brief?: boolean }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [asked, setAsked] = useState<"remove" | "rotate" | null>(null);
  const [made, setMade] = useState<NewWebhook | null>(null);
  const [busy, setBusy] = useState(false);
  if (!operates) return null;
  const { name } = webhook;
  const path = { webhook_id: webhook.id };
  const size = brief ? { size: "small" as const } : {};
  const renew = () => queryClient.invalidateQueries({ queryKey: ["webhooks"] });

  async function order(verb: Verb): Promise<void> {
    try {
      await call("post", `/api/v1/webhooks/{webhook_id}:${verb}`, { path });
      toast({ tone: "ok", text: t(`hooks.${verb}.done`, { name }) });
      if (verb === "remove") navigate("/webhooks");
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  async function rotate(): Promise<void> {
    try {
      setMade(await call("post", "/api/v1/webhooks/{webhook_id}:rotate", { path, body: {} }));
    } catch (error) {
      complain(error);
    }
    await renew();
  }

  async function test(): Promise<void> {
    setBusy(true);
    try {
      const sent = await call("post", "/api/v1/webhooks/{webhook_id}:test", { path });
      const took = span(sent.elapsed_s);
      toast(
        sent.delivered
          ? { tone: "ok", text: t("hooks.test.done", { name, status: sent.status, took }) }
          : { tone: "bad", text: t("hooks.test.failed", { name, why: sent.error || sent.status }) },
      );
    } catch (error) {
      complain(error);
    }
    setBusy(false);
  }

  const verb = webhook.status === "paused" || webhook.is_full ? "resume" : "pause";
  return (
    <span className="row tight end wrap">
      {!brief && (
        <Button disabled={busy} onClick={() => void test()}>
          {t("hooks.test")}
        </Button>
      )}
      <Button
        {...size}
        icon={verb === "pause" ? "pause" : "play"}
        aria-label={`${t(`hooks.${verb}`)}: ${name}`}
        onClick={() => void order(verb)}
      >
        {t(`hooks.${verb}`)}
      </Button>
      {!brief && (
        <>
          {webhook.format !== "email" && (
            <Button onClick={() => setAsked("rotate")}>{t("hooks.rotate")}</Button>
          )}
          <Button look="danger" onClick={() => setAsked("remove")}>
            {t("bundles.remove")}
          </Button>
        </>
      )}
      {asked && (
        <Confirm
          title={t(`hooks.${asked}.ask`, { name })}
          text={t(`hooks.${asked}.text`)}
          verb={asked === "remove" ? t("bundles.remove") : t("hooks.rotate")}
          danger={asked === "remove"}
          onConfirm={() => (asked === "remove" ? order("remove") : rotate())}
          onClose={() => setAsked(null)}
        />
      )}
      {made && (
        <SecretDialog
          title={t("hooks.secretOf", { name })}
          text={t("secret.once")}
          secret={made.secret}
          onClose={() => setMade(null)}
        />
      )}
    </span>
  );
}
