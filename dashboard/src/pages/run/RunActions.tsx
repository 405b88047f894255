import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { RunView } from "../../generated/api";
import { useT } from "../../i18n";
import { Link } from "../../lib/router";
import { isLive } from "../../lib/steps";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { useComplain, useToast } from "../../ui/Toasts";

/** Orders about a run, and what is said when they were carried out. */
export function useRunOrders(run: RunView) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const path = { run_id: run.id };
  async function carryOut(order: () => Promise<unknown>, done: string): Promise<void> {
    try {
      await order();
      toast({ tone: "ok", text: done });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["runs"] });
  }
  return {
    cancel: () =>
      carryOut(
        () => call("post", "/api/v1/runs/{run_id}:cancel", { path }),
        t("flow.cancel.done", { name: run.name }),
      ),
    rerun: (steps: string[]) =>
      carryOut(
        () => call("post", "/api/v1/runs/{run_id}:rerun", { path, body: { steps } }),
        t("flow.rerun.done", { name: run.name }),
      ),
  };
}

export function RunActions({ run }: { run: RunView }) {
  const t = useT();
  const { operates } = useVisitor();
  const orders = useRunOrders(run);
  const [asked, setAsked] = useState<"cancel" | "rerun" | null>(null);
  if (!operates) return null;
  const failed = run.status === "failed" || run.status === "cancelled";
  return (
    <>
      {failed && (
        <Button look="primary" icon="retry" onClick={() => setAsked("rerun")}>
          {t("flow.rerun")}
        </Button>
      )}
      {!isLive(run.status) && (
        <Link
          className="button"
          to={`/workflows/${encodeURIComponent(run.workflow_id)}?tab=start&from=${encodeURIComponent(run.id)}`}
        >
          {t("flow.startAgain")}
        </Link>
      )}
      {run.status === "running" && (
        <Button look="danger" icon="stop" onClick={() => setAsked("cancel")}>
          {t("flow.cancel")}
        </Button>
      )}
      {asked === "cancel" && (
        <Confirm
          title={t("flow.cancel.ask", { name: run.name })}
          text={t("flow.cancel.text")}
          verb={t("flow.cancel")}
          danger
          onConfirm={orders.cancel}
          onClose={() => setAsked(null)}
        />
      )}
      {asked === "rerun" && (
        <Confirm
          title={t("flow.rerun.ask", { name: run.name })}
          text={t("flow.rerun.text")}
          verb={t("flow.rerun")}
          onConfirm={() => orders.rerun([])}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}

interface RerunFromProps {
  run: RunView;
  step: string;
  /** How many steps follow it; unknown in a run that is too large to be drawn. */
  following: number | null;
}

/** Do a step and all after it anew. */
export function RerunFrom({ run, step, following }: RerunFromProps) {
  const t = useT();
  const { operates } = useVisitor();
  const orders = useRunOrders(run);
  const [asked, setAsked] = useState(false);
  if (!operates || isLive(run.status)) return null;
  return (
    <>
      <Button icon="retry" onClick={() => setAsked(true)}>
        {t("flow.from")}
      </Button>
      {asked && (
        <Confirm
          title={t("flow.from.ask", { name: step })}
          text={
            following === null ? t("flow.from.text") : t("flow.from.textCount", { n: following })
          }
          verb={t("flow.from")}
          onConfirm={() => orders.rerun([step])}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  );
}
