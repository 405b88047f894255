import { useState } from "react";
import { useT } from "../i18n";
import { Field } from "./basics";
import { Confirm } from "./Dialog";

export type Verb = "cancel" | "pause" | "resume" | "retry" | "reprioritise";

interface ConfirmOrderProps {
  verb: Verb;
  title: string;
  /** What the field of the priority begins with. */
  priority: number;
  onConfirm: (priority: number) => Promise<void>;
  onClose: () => void;
}

/** Asks before an order to one task or many is carried out, and for the priority that it needs. */
export function ConfirmOrder({ verb, title, onConfirm, onClose, ...begins }: ConfirmOrderProps) {
  const t = useT();
  const [priority, setPriority] = useState(begins.priority);
  return (
    <Confirm
      title={title}
      text={t(`order.${verb}.text`)}
      verb={t(`order.${verb}`)}
      danger={verb === "cancel"}
      onConfirm={() => onConfirm(priority)}
      onClose={onClose}
    >
      {verb === "reprioritise" && (
        <Field label={t("tasks.priority")} hint={t("tasks.priorityHint")}>
          {(id) => (
            <input
              id={id}
              className="input"
              type="number"
              min={1}
              max={10}
              value={priority}
              onChange={(event) => setPriority(Number(event.target.value))}
            />
          )}
        </Field>
      )}
    </Confirm>
  );
}
