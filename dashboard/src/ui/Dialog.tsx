import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { useT } from "../i18n";
import { Button } from "./basics";

interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ReactNode;
}

/** A modal dialog: the browser keeps the focus inside, and gives it back afterwards. */
export function Dialog({ title, onClose, wide, children }: DialogProps) {
  const id = useId();
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={`dialog ${wide ? "wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="dialog-body">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: ReactNode;
  verb: string;
  danger?: boolean;
  children?: ReactNode;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before something is done that other people will notice. */
export function Confirm(props: ConfirmProps) {
  const t = useT();
  const [busy, setBusy] = useState(false);
  async function confirm(): Promise<void> {
    setBusy(true);
    try {
      await props.onConfirm();
      props.onClose();
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <div className="muted">{props.text}</div>
      {props.children}
      <div className="dialog-foot">
        <Button onClick={props.onClose}>{t("common.back")}</Button>
        <Button
          look={props.danger ? "primary danger" : "primary"}
          disabled={busy}
          onClick={() => void confirm()}
        >
          {props.verb}
        </Button>
      </div>
    </Dialog>
  );
}
