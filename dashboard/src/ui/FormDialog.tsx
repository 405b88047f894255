/** A dialog with a few fields that makes or changes one thing. */
import { type FormEvent, type ReactNode, useState } from "react";
import { Problem } from "../api/client";
import { useT } from "../i18n";
import { useRetelling } from "../i18n/retelling";
import { Button, Command, Field } from "./basics";
import { Dialog } from "./Dialog";

export interface Ask {
  name: string;
  label: string;
  hint?: string;
  value?: string;
  type?: "text" | "number";
  options?: [string, string][];
  required?: boolean;
}

interface FormDialogProps {
  title: string;
  asks: Ask[];
  verb: string;
  onSubmit: (values: Record<string, string>) => Promise<void>;
  onClose: () => void;
}

export function FormDialog({ title, asks, verb, onSubmit, onClose }: FormDialogProps) {
  const t = useT();
  const { problem } = useRetelling();
  const [values, setValues] = useState<Record<string, string>>(
    Object.fromEntries(asks.map((ask) => [ask.name, ask.value ?? ask.options?.[0]?.[0] ?? ""])),
  );
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setWrong({});
    setTrouble("");
    try {
      await onSubmit(values);
    } catch (error) {
      const errors = error instanceof Problem ? (error.body.errors ?? []) : [];
      setWrong(
        Object.fromEntries(errors.map((each) => [each.field, `${each.message}; ${each.remedy}`])),
      );
      if (errors.length === 0) setTrouble(problem(error));
      setBusy(false);
    }
  }

  return (
    <Dialog title={title} onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        {asks.map((ask) => (
          <Field key={ask.name} label={ask.label} hint={ask.hint} wrong={wrong[ask.name]}>
            {(id, note) =>
              ask.options ? (
                <select
                  id={id}
                  aria-describedby={note}
                  className="select"
                  value={values[ask.name]}
                  onChange={(event) => setValues({ ...values, [ask.name]: event.target.value })}
                >
                  {ask.options.map(([value, name]) => (
                    <option key={value} value={value}>
                      {name}
                    </option>
                  ))}
                </select>
              ) : (
                <input
                  id={id}
                  aria-describedby={note}
                  className="input"
                  type={ask.type ?? "text"}
                  step="any"
                  required={ask.required}
                  value={values[ask.name]}
                  onChange={(event) => setValues({ ...values, [ask.name]: event.target.value })}
                />
              )
            }
          </Field>
        ))}
        {trouble && (
          <div className="notice bad" role="alert">
            {trouble}
          </div>
        )}
        <div className="dialog-foot">
          <Button onClick={onClose}>{t("common.back")}</Button>
          <Button type="submit" look="primary" disabled={busy}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface SecretDialogProps {
  title: string;
  text: string;
  secret: string;
  children?: ReactNode;
  onClose: () => void;
}

/** Shows what is shown once. */
export function SecretDialog({ title, text, secret, children, onClose }: SecretDialogProps) {
  const t = useT();
  return (
    <Dialog title={title} onClose={onClose} wide>
      <div className="notice warn">{text}</div>
      <Command text={secret} />
      {children}
      <div className="dialog-foot">
        <Button look="primary" onClick={onClose}>
          {t("secret.kept")}
        </Button>
      </div>
    </Dialog>
  );
}

/** Days as the API wants them; empty means for ever. */
export function daysToSeconds(text: string | undefined): number | null {
  const days = Number(text);
  return text?.trim() && days > 0 ? days * 86_400 : null;
}
