import { useState } from "react";
import { call } from "../../api/client";
import { queryClient } from "../../api/queries";
import type { NewWebhook } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { navigate } from "../../lib/router";
import { Button } from "../../ui/basics";
import { FormDialog, SecretDialog } from "../../ui/FormDialog";
import { useProjectAsk } from "../../ui/projectAsk";

const FORMATS = ["events", "workflow", "email"] as const;

/** What the form's words come to. */
export function requestOf(values: Record<string, string>) {
  const { name = "", url = "", format = "events", project_id, kinds = "", description } = values;
  const wanted = kinds
    .split(/[\s,]+/)
    .map((each) => each.trim())
    .filter((each) => each !== "");
  return {
    name: name.trim(),
    url: url.trim(),
    format: url.trim().startsWith("mailto:") ? ("email" as const) : (format as "events"),
    kinds: wanted,
    ...(project_id ? { project_id } : {}),
    ...(description ? { description } : {}),
  };
}

/** The button that makes a webhook, and its secret, which is shown once. */
export function Make() {
  const t = useT();
  const word = useWord();
  const ofProject = useProjectAsk();
  const [asking, setAsking] = useState(false);
  const [made, setMade] = useState<NewWebhook | null>(null);

  async function make(values: Record<string, string>): Promise<void> {
    const answer = await call("post", "/api/v1/webhooks", { body: requestOf(values) });
    setAsking(false);
    setMade(answer);
    await queryClient.invalidateQueries({ queryKey: ["webhooks"] });
  }

  function close(): void {
    const id = made?.webhook.id;
    setMade(null);
    if (id) navigate(`/webhooks/${encodeURIComponent(id)}`);
  }

  return (
    <>
      <Button look="primary" icon="submit" onClick={() => setAsking(true)}>
        {t("hooks.make")}
      </Button>
      {asking && (
        <FormDialog
          title={t("hooks.make")}
          verb={t("hooks.make")}
          onClose={() => setAsking(false)}
          onSubmit={make}
          asks={[
            { name: "name", label: t("common.name"), hint: t("clusters.idHint"), required: true },
            { name: "url", label: t("hooks.url"), hint: t("hooks.urlHint"), required: true },
            {
              name: "format",
              label: t("hooks.format"),
              options: FORMATS.map((each): [string, string] => [each, word("hookFormat", each)]),
            },
            { name: "kinds", label: t("hooks.kinds"), hint: t("hooks.kindsHint") },
            ...ofProject,
            { name: "description", label: t("common.description") },
          ]}
        />
      )}
      {made && (
        <SecretDialog
          title={t("hooks.secretOf", { name: made.webhook.name })}
          text={t("secret.once")}
          secret={made.secret}
          onClose={close}
        >
          <p className="muted">{t("hooks.secretText")}</p>
        </SecretDialog>
      )}
    </>
  );
}
