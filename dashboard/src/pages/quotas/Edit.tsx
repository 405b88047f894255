import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import type { QuotaView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { labelsOf, patchOf } from "../../lib/quotas";
import { FormDialog } from "../../ui/FormDialog";
import { useToast } from "../../ui/Toasts";

export function Edit({ view, onClose }: { view: QuotaView; onClose: () => void }) {
  const t = useT();
  const word = useWord();
  const toast = useToast();
  async function save(values: Record<string, string>): Promise<void> {
    const { wrong } = labelsOf(values.nodes ?? "");
    if (wrong) throw new Error(t("quotas.nodesWrong", { part: wrong }));
    await call("patch", "/api/v1/projects/{project_id}/quotas", {
      path: { project_id: view.project_id },
      body: patchOf(view, values),
    });
    await queryClient.invalidateQueries({ queryKey: ["quotas"] });
    toast({ tone: "ok", text: t("quotas.saved", { name: view.project_id }) });
    onClose();
  }
  const labels = Object.entries(view.nodes).map(([name, value]) => `${name}=${value}`);
  return (
    <FormDialog
      title={t("quotas.changeOf", { name: view.project_id })}
      verb={t("common.save")}
      onClose={onClose}
      onSubmit={save}
      asks={[
        ...view.quotas.map((line) => ({
          name: line.name,
          label: word("quota", line.name),
          hint: `${line.name.endsWith("_mb") ? "MB; " : ""}${t("quotas.none.hint")}`,
          type: "number" as const,
          value: line.limit === null ? "" : String(line.limit),
        })),
        {
          name: "over",
          label: t("quotas.over"),
          value: view.over,
          options: [
            ["queue", t("quotas.over.queue")],
            ["reject", t("quotas.over.reject")],
          ],
        },
        {
          name: "weight",
          label: t("quotas.weight"),
          hint: t("quotas.weightHint"),
          type: "number",
          required: true,
          value: String(view.weight),
        },
        {
          name: "nodes",
          label: t("quotas.nodes"),
          hint: t("quotas.nodesHint"),
          value: labels.join(", "),
        },
      ]}
    />
  );
}
