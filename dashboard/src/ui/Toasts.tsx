import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
import { useT } from "../i18n";
import { useRetelling } from "../i18n/retelling";
import { Icon } from "./Icon";

export interface Toast {
  tone: "ok" | "bad";
  text: string;
}

const Context = createContext<(toast: Toast) => void>(() => {});
const STAYS_MS = { ok: 4000, bad: 9000 };

export function ToastsProvider({ children }: { children: ReactNode }) {
  const t = useT();
  const [toasts, setToasts] = useState<(Toast & { id: number })[]>([]);
  const next = useRef(0);
  const drop = useCallback((id: number) => {
    setToasts((all) => all.filter((each) => each.id !== id));
  }, []);
  const show = useCallback(
    (toast: Toast) => {
      const id = next.current++;
      setToasts((all) => [...all.slice(-3), { ...toast, id }]);
      setTimeout(() => drop(id), STAYS_MS[toast.tone]);
    },
    [drop],
  );
  return (
    <Context.Provider value={show}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map((toast) => (
          <div className="toast" key={toast.id}>
            <span className={`tone-${toast.tone}`}>
              <Icon name={toast.tone === "ok" ? "check" : "warning"} />
            </span>
            <span className="grow">{toast.text}</span>
            <button
              type="button"
              className="button plain small"
              aria-label={t("common.close")}
              onClick={() => drop(toast.id)}
            >
              <Icon name="close" />
            </button>
          </div>
        ))}
      </div>
    </Context.Provider>
  );
}

export function useToast(): (toast: Toast) => void {
  return useContext(Context);
}

/** Tells what the master refused, or what else went wrong. */
export function useComplain(): (error: unknown) => void {
  const toast = useToast();
  const { problem } = useRetelling();
  return (error) => toast({ tone: "bad", text: problem(error) });
}
