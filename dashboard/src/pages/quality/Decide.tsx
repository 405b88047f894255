import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { MeasuredRunView } from "../../generated/api";
import { useT } from "../../i18n";
import { shortId } from "../../lib/format";
import { isHeld } from "../../lib/quality";
import { Button } from "../../ui/basics";
import { FormDialog } from "../../ui/FormDialog";
import { useToast } from "../../ui/Toasts";

/** What becomes of items that are held: somebody has to say so. */
export function Decide({ run }: { run: MeasuredRunView }) {
  const t = useT();
  const toast = useToast();
  const { operates } = useVisitor();
  const [asked, setAsked] = useState<"accept" | "reject" | null>(null);
  if (!operates || !isHeld(run)) return null;
  return (
    <span className="row tight end nowrap">
      {(["accept", "reject"] as const).map((verb) => (
        <Button
          key={verb}
          size="small"
          {...(verb === "reject" ? { look: "danger" as const } : {})}
          aria-label={`${t(`quality.${verb}`)}: ${shortId(run.task_id)}`}
          onClick={() => setAsked(verb)}
        >
          {t(`quality.${verb}`)}
        </Button>
      ))}
      {asked && (
        <FormDialog
          title={t(`quality.${asked}.ask`)}
          verb={t(`quality.${asked}`)}
          asks={[{ name: "reason", label: t("alerts.why"), hint: t("alerts.whyHint") }]}
          onClose={() => setAsked(null)}
          onSubmit={async ({ reason = "" }) => {
            await call("post", `/api/v1/tasks/{task_id}:${asked}`, {
              path: { task_id: run.task_id },
              body: { reason },
            });
            setAsked(null);
            toast({ tone: "ok", text: t(`quality.${asked}.done`) });
            await queryClient.invalidateQueries({ queryKey: ["quality"] });
            await queryClient.invalidateQueries({ queryKey: ["runs"] });
          }}
        />
      )}
    </span>
  );
}
