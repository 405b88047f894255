import { type FormEvent, useState } from "react";
import { call, Problem } from "../api/client";
import type { SessionView } from "../generated/api";
import { useT } from "../i18n";
import icon from "../icon.svg";
import { Button, Coded, Command, Field, Trouble } from "../ui/basics";
import { Choices } from "../ui/Choices";
import { Icon } from "../ui/Icon";

interface SignInProps {
  onDone: (session: SessionView) => void;
  /** Why a link, or the session that the browser had, did not let the visitor in. */
  refusal?: unknown;
}

export function SignIn({ onDone, refusal }: SignInProps) {
  const t = useT();
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string>();

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setWrong(undefined);
    try {
      onDone(await call("post", "/api/v1/session", { body: { key: key.trim() } }));
    } catch (error) {
      const status = error instanceof Problem ? error.status : 0;
      setWrong(
        status === 401
          ? t("signIn.wrong")
          : status === 0
            ? t("common.unreachable")
            : (error as Error).message,
      );
      setBusy(false);
    }
  }

  return (
    <main className="sign-in">
      <form className="card stack" onSubmit={(event) => void submit(event)}>
        <div className="brand">
          <img src={icon} alt="" /> crawlfleet
        </div>
        <h1>{t("signIn.title")}</h1>
        {refusal instanceof Problem && refusal.status === 401 ? (
          <div className="notice warn" role="alert">
            <Icon name="warning" />
            <span>
              <Coded text={t("signIn.usedLink")} />
            </span>
          </div>
        ) : (
          refusal !== undefined && <Trouble error={refusal} />
        )}
        <Field label={t("signIn.key")} hint={<Coded text={t("signIn.hint")} />} wrong={wrong}>
          {(id, note) => (
            <input
              id={id}
              aria-describedby={note}
              aria-invalid={wrong ? true : undefined}
              className="input mono"
              type="password"
              autoComplete="current-password"
              value={key}
              required
              onChange={(event) => setKey(event.target.value)}
            />
          )}
        </Field>
        <Button type="submit" look="primary" disabled={busy || !key.trim()}>
          {t("signIn.submit")}
        </Button>
        <div className="stack tight small">
          <span className="muted">{t("signIn.link")}</span>
          <Command text="crawlfleet open" />
        </div>
        <Choices />
      </form>
    </main>
  );
}
