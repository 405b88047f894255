import { type DragEvent, useId, useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useT } from "../../i18n";
import { inBase64, suggestedName, unfit } from "../../lib/archive";
import { bytes } from "../../lib/format";
import { navigate } from "../../lib/router";
import { FormDialog } from "../../ui/FormDialog";
import { Icon } from "../../ui/Icon";
import { useToast } from "../../ui/Toasts";

interface UploadProps {
  projectId: string;
  /** Of the bundle that gets a new version; as the file suggests where there is none yet. */
  name?: string;
}

/** A place to drop an archive on, or to choose one; then it is asked what to call it. */
export function Upload({ projectId, name }: UploadProps) {
  const t = useT();
  const toast = useToast();
  const id = useId();
  const [over, setOver] = useState(false);
  const [file, setFile] = useState<File | null>(null);

  function take(chosen: File | undefined): void {
    if (!chosen) return;
    const wrong = unfit(chosen);
    if (wrong) toast({ tone: "bad", text: t(`bundles.unfit.${wrong}`, { name: chosen.name }) });
    else setFile(chosen);
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files[0]);
  }

  async function deploy(file: File, values: Record<string, string>): Promise<void> {
    const archive = await inBase64(file);
    const made = await call("post", "/api/v1/projects/{project_id}/bundles", {
      path: { project_id: projectId },
      body: { name: values.name ?? "", note: values.note ?? "", archive },
    });
    setFile(null);
    await queryClient.invalidateQueries({ queryKey: ["bundles"] });
    toast({ tone: "ok", text: t("bundles.deployed", { name: made.name, n: made.current }) });
    navigate(`/bundles/${encodeURIComponent(projectId)}/${encodeURIComponent(made.name)}`);
  }

  return (
    <>
      <label
        htmlFor={id}
        className={`drop ${over ? "over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <Icon name="upload" />
        <span>
          <span className="strong">{t(name ? "bundles.dropNew" : "bundles.drop")}</span>
          <span className="muted small">{t("bundles.dropHint")}</span>
        </span>
        <input
          id={id}
          className="hidden-text"
          type="file"
          accept=".zip,.whl"
          onChange={(event) => {
            take(event.target.files?.[0]);
            event.target.value = "";
          }}
        />
      </label>
      {file && (
        <FormDialog
          title={t("bundles.deploy")}
          verb={t("bundles.deploy")}
          onClose={() => setFile(null)}
          onSubmit={(values) => deploy(file, values)}
          asks={[
            {
              name: "name",
              label: t("common.name"),
              hint: `${file.name} · ${bytes(file.size)} · ${t("tasks.project")}: ${projectId}`,
              value: name ?? suggestedName(file.name),
              required: true,
            },
            { name: "note", label: t("bundles.note"), hint: t("bundles.noteHint") },
          ]}
        />
      )}
    </>
  );
}
