import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { NodeView } from "../../generated/api";
import { useT } from "../../i18n";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/Dialog";
import { useComplain, useToast } from "../../ui/Toasts";

type Verb = "drain" | "maintenance" | "resume" | "revoke";

/** What may be ordered of a node in its state. */
function verbsFor(status: string, administers: boolean): Verb[] {
  const verbs: Verb[] = [];
  if (status === "online") verbs.push("drain", "maintenance");
  if (status === "draining") verbs.push("resume", "maintenance");
  if (status === "maintenance") verbs.push("resume", "drain");
  if (administers) verbs.push("revoke");
  return verbs;
}

export function NodeActions({ node, brief }: { node: NodeView; brief?: boolean }) {
  const t = useT();
  const toast = useToast();
  const complain = useComplain();
  const { operates, administers } = useVisitor();
  const [asked, setAsked] = useState<Verb | null>(null);
  if (!operates) return null;

  async function order(verb: Verb): Promise<void> {
    try {
      await call("post", `/api/v1/nodes/{node_id}:${verb}`, { path: { node_id: node.id } });
      toast({ tone: "ok", text: t(`nodes.${verb}.done`, { name: node.name }) });
    } catch (error) {
      complain(error);
    }
    await queryClient.invalidateQueries({ queryKey: ["nodes"] });
  }

  const verbs = verbsFor(node.status, administers);
  const shown = brief ? verbs.filter((verb) => verb !== "revoke").slice(0, 1) : verbs;
  return (
    <>
      {shown.map((verb) => (
        <Button
          key={verb}
          {...(brief ? { size: "small" as const } : {})}
          {...(verb === "revoke" ? { look: "danger" as const } : {})}
          onClick={() => (verb === "resume" ? void order(verb) : setAsked(verb))}
        >
          {t(`nodes.${verb}`)}
        </Button>
      ))}
      {asked && (
        <Confirm
          title={t(`nodes.${asked}.ask`, { name: node.name })}
          text={t(`nodes.${asked}.text`, { n: node.active_tasks.length })}
          verb={t(`nodes.${asked}`)}
          danger={asked === "revoke"}
          onConfirm={() => order(asked)}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
