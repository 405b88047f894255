import { useState } from "react";
import { call } from "../../api/client";
import { useT } from "../../i18n";
import { Ago, Button, Card, Command } from "../../ui/basics";
import { useComplain } from "../../ui/Toasts";

/** A link that signs another device in, once. */
export function Device() {
  const t = useT();
  const complain = useComplain();
  const [link, setLink] = useState<{ path: string; expires_at: string } | null>(null);
  async function make(): Promise<void> {
    try {
      setLink(await call("post", "/api/v1/session:link", {}));
    } catch (error) {
      complain(error);
    }
  }
  return (
    <Card title={t("settings.device")}>
      <div className="stack">
        <p className="muted">{t("device.text")}</p>
        <div>
          <Button look="primary" onClick={() => void make()}>
            {t("device.make")}
          </Button>
        </div>
        {link && (
          <>
            <Command text={`${location.origin}${link.path}`} />
            <p className="muted">
              {t("device.until")} <Ago at={link.expires_at} />
            </p>
          </>
        )}
      </div>
    </Card>
  );
}
