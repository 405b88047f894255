import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { TaskView } from "../../generated/api";
import { useT } from "../../i18n";
import { Link } from "../../lib/router";
import { Button } from "../../ui/basics";
import { ConfirmOrder, type Verb } from "../../ui/ConfirmOrder";
import { useComplain, useToast } from "../../ui/Toasts";

/** What may be ordered of a task in its state. */
export function verbsFor(status: string): Verb[] {
  switch (status) {
    case "pending":
    case "waiting":
      return ["reprioritise", "pause", "cancel"];
    case "assigned":
    case "processing":
      return ["pause", "cancel"];
    case "paused":
      return ["resume", "cancel"];
    case "failed":
    case "timeout":
    case "cancelled":
      return ["retry"];
    default:
      return [];
  }
}

export function TaskActions({ task }: { task: TaskView }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates } = useVisitor();
  const [asked, setAsked] = useState<Verb | null>(null);
  if (!operates) return null;

  async function order(verb: Verb, priority = task.priority): Promise<void> {
    const path = { task_id: task.id };
    try {
      if (verb === "reprioritise") {
        await call("post", "/api/v1/tasks/{task_id}:reprioritise", { path, body: { priority } });
      } else await call("post", `/api/v1/tasks/{task_id}:${verb}`, { path });
      toast({ tone: "ok", text: t(`order.${verb}.done`) });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["task", task.id] });
  }

  return (
    <>
      {verbsFor(task.status).map((verb) => (
        <Button
          key={verb}
          {...(verb === "cancel" ? { look: "danger" as const } : {})}
          onClick={() =>
            verb === "cancel" || verb === "reprioritise" ? setAsked(verb) : void order(verb)
          }
        >
          {t(`order.${verb}`)}
        </Button>
      ))}
      <Link className="button" to={`/submit?from=${encodeURIComponent(task.id)}`}>
        {t("order.clone")}
      </Link>
      {asked && (
        <ConfirmOrder
          verb={asked}
          title={t(`order.${asked}`)}
          priority={task.priority}
          onConfirm={(priority) => order(asked, priority)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
