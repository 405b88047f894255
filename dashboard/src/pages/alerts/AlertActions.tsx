import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { AlertView } from "../../generated/api";
import { useT } from "../../i18n";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { useComplain, useToast } from "../../ui/Toasts";
import { Change, Silence } from "./forms";

/** What may be done about a rule. */
export function AlertActions({ alert }: { alert: AlertView }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [asked, setAsked] = useState<"silence" | "change" | "remove" | null>(null);
  if (!operates) return null;
  const { name } = alert;
  const path = { alert_id: alert.id };
  const close = () => setAsked(null);

  async function carryOut(order: () => Promise<unknown>, done: string): Promise<void> {
    try {
      await order();
      toast({ tone: "ok", text: done });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["alerts"] });
  }
  const lift = () =>
    carryOut(
      () => call("post", "/api/v1/alerts/{alert_id}:unsilence", { path, body: {} }),
      t("alerts.unsilence.done", { name }),
    );
  const turn = () =>
    carryOut(
      () => call("patch", "/api/v1/alerts/{alert_id}", { path, body: { is_on: !alert.is_on } }),
      t(alert.is_on ? "alerts.off.done" : "alerts.on.done", { name }),
    );
  const remove = () =>
    carryOut(
      () => call("post", "/api/v1/alerts/{alert_id}:remove", { path }),
      t("alerts.remove.done", { name }),
    );
  const label = (verb: string) => `${verb}: ${name}`;
  return (
    <span className="row tight end nowrap">
      {alert.silences.length > 0 ? (
        <Button size="small" aria-label={label(t("alerts.unsilence"))} onClick={() => void lift()}>
          {t("alerts.unsilence")}
        </Button>
      ) : (
        alert.is_on && (
          <Button
            size="small"
            aria-label={label(t("alerts.silence"))}
            onClick={() => setAsked("silence")}
          >
            {t("alerts.silence")}
          </Button>
        )
      )}
      <Button
        size="small"
        aria-label={label(t("clusters.change"))}
        onClick={() => setAsked("change")}
      >
        {t("clusters.change")}
      </Button>
      <Button
        size="small"
        aria-label={label(t(alert.is_on ? "alerts.turnOff" : "alerts.turnOn"))}
        onClick={() => void turn()}
      >
        {t(alert.is_on ? "alerts.turnOff" : "alerts.turnOn")}
      </Button>
      {!alert.is_built_in && (
        <Button
          size="small"
          look="danger"
          aria-label={label(t("bundles.remove"))}
          onClick={() => setAsked("remove")}
        >
          {t("bundles.remove")}
        </Button>
      )}
      {asked === "silence" && <Silence alert={alert} onClose={close} />}
      {asked === "change" && <Change alert={alert} onClose={close} />}
      {asked === "remove" && (
        <Confirm
          title={t("alerts.remove.ask", { name })}
          text={t("alerts.remove.text")}
          verb={t("bundles.remove")}
          danger
          onConfirm={remove}
          onClose={close}
        />
      )}
    </span>
  );
}
