import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { DeliveryView, WebhookDetails } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { usePages } from "../../lib/pages";
import { useSearch } from "../../lib/router";
import { Ago, Button, Card, Coded, Empty, Loaded } from "../../ui/basics";
import { Confirm, Dialog } from "../../ui/Dialog";
import { SubjectLink } from "../../ui/events";
import { StateSelect } from "../../ui/filters";
import { Json } from "../../ui/Json";
import { Listing } from "../../ui/Listing";
import { State } from "../../ui/State";
import type { Column } from "../../ui/Table";
import { useComplain, useToast } from "../../ui/Toasts";

const STATES = ["waiting", "delivered", "dead"] as const;

/** Sends deliveries again: those that are named, or all that were given up. */
function useResend(webhook: WebhookDetails): (ids: string[]) => Promise<void> {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  return async (ids) => {
    try {
      let resent = 0;
      let more = true;
      while (more) {
        const answer = await call("post", "/api/v1/webhooks/{webhook_id}:resend", {
          path: { webhook_id: webhook.id },
          body: { ids },
        });
        resent += answer.resent;
        more = ids.length === 0 && answer.more === true && answer.resent > 0;
      }
      toast({ tone: "ok", text: t("hooks.resent", { n: count(resent) }) });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["webhooks"] });
  };
}

/** What is sent, and what was answered last. */
function Details(props: { webhookId: string; id: string; onClose: () => void }) {
  const t = useT();
  const found = useQuery({
    queryKey: ["webhooks", props.webhookId, "delivery", props.id],
    queryFn: () =>
      call("get", "/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", {
        path: { webhook_id: props.webhookId, delivery_id: props.id },
      }),
  });
  return (
    <Dialog title={t("hooks.delivery")} onClose={props.onClose} wide>
      <Loaded of={found}>
        {(delivery) => (
          <>
            <dl className="facts">
              <dt>{t("common.id")}</dt>
              <dd className="mono">{delivery.id}</dd>
              <dt>{t("tasks.state")}</dt>
              <dd>
                <State family="delivery" name={delivery.status} />
              </dd>
              <dt>{t("hooks.event")}</dt>
              <dd>
                {delivery.kind} <SubjectLink event={delivery} />
              </dd>
              {delivery.path && (
                <>
                  <dt>{t("hooks.path")}</dt>
                  <dd className="mono">{delivery.path}</dd>
                </>
              )}
              <dt>{t("hooks.attempts")}</dt>
              <dd>{count(delivery.attempts)}</dd>
              {(delivery.last_status > 0 || delivery.last_error) && (
                <>
                  <dt>{t("hooks.lastAnswer")}</dt>
                  <dd>
                    {delivery.last_status || "–"} {delivery.last_error}
                  </dd>
                </>
              )}
            </dl>
            <Json value={delivery.body} label={t("hooks.body")} />
          </>
        )}
      </Loaded>
      <div className="dialog-foot">
        <Button onClick={props.onClose}>{t("common.close")}</Button>
      </div>
    </Dialog>
  );
}

export function Deliveries({ webhook }: { webhook: WebhookDetails }) {
  const t = useT();
  const { operates } = useVisitor();
  const [search, change] = useSearch();
  const [asking, setAsking] = useState(false);
  const resend = useResend(webhook);
  const asked = search.get("status") ?? "";
  const status = STATES.find((each) => each === asked);
  const opened = search.get("delivery");
  const found = usePages<DeliveryView>(
    ["webhooks", webhook.id, "deliveries", status ?? ""],
    (cursor) =>
      call("get", "/api/v1/webhooks/{webhook_id}/deliveries", {
        path: { webhook_id: webhook.id },
        query: { limit: 100, ...(status ? { status } : {}), ...(cursor ? { cursor } : {}) },
      }),
    5000,
  );
  const columns: Column<DeliveryView>[] = [
    { title: t("tasks.state"), cell: (each) => <State family="delivery" name={each.status} /> },
    {
      title: t("hooks.event"),
      cell: (each) => (
        <>
          <button type="button" className="step-name" onClick={() => change({ delivery: each.id })}>
            {each.kind}
          </button>
          <div className="small nowrap">
            <SubjectLink event={each} />
          </div>
        </>
      ),
    },
    { title: t("hooks.attempts"), right: true, cell: (each) => count(each.attempts) },
    {
      title: t("hooks.lastAnswer"),
      cell: (each) => (
        <div className="reason small breaks few-lines" title={each.last_error}>
          {each.last_status > 0 && <span className="mono">{each.last_status} </span>}
          <span className="muted">
            <Coded text={each.last_error || (each.last_status ? "" : "–")} />
          </span>
        </div>
      ),
    },
    {
      title: t("hooks.when"),
      right: true,
      cell: (each) => (
        <span className="muted small">
          <Ago at={each.settled_at ?? each.last_at ?? each.created_at} />
          {each.due_at && each.attempts > 0 && (
            <div>
              {t("hooks.next")} <Ago at={each.due_at} />
            </div>
          )}
        </span>
      ),
    },
  ];
  if (operates) {
    columns.push({
      title: t("common.actions"),
      bare: true,
      right: true,
      cell: (each) =>
        each.status !== "waiting" && (
          <Button
            size="small"
            icon="retry"
            aria-label={`${t("hooks.resend")}: ${each.kind} ${each.seq}`}
            onClick={() => void resend([each.id])}
          >
            {t("hooks.resend")}
          </Button>
        ),
    });
  }
  return (
    <Card
      title={t("hooks.deliveries")}
      flush
      aside={
        operates &&
        webhook.dead > 0 && (
          <Button size="small" icon="retry" onClick={() => setAsking(true)}>
            {t("hooks.resendDead", { n: count(webhook.dead) })}
          </Button>
        )
      }
    >
      <search className="filters filters-in">
        <StateSelect family="delivery" values={STATES} />
      </search>
      <Listing
        of={found}
        label={t("hooks.deliveries")}
        columns={columns}
        rowKey={(each) => each.id}
        filters={["status"]}
        empty={
          <Empty icon="webhooks" title={t("hooks.noneTitle")}>
            {t("hooks.noneText")}
          </Empty>
        }
      />
      {opened && (
        <Details webhookId={webhook.id} id={opened} onClose={() => change({ delivery: null })} />
      )}
      {asking && (
        <Confirm
          title={t("hooks.resendDead", { n: count(webhook.dead) })}
          text={t("hooks.resendText")}
          verb={t("hooks.resend")}
          onConfirm={() => resend([])}
          onClose={() => setAsking(false)}
        />
      )}
    </Card>
  );
}
