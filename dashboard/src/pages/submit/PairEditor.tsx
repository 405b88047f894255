import { useState } from "react";
import { useT } from "../../i18n";
import type { MapOf } from "../../lib/schema";
import { Button } from "../../ui/basics";

interface PairEditorProps {
  id: string;
  value: unknown;
  of: MapOf;
  onChange: (value: Record<string, unknown> | undefined) => void;
  namePlaceholder?: string | undefined;
  valuePlaceholder?: string | undefined;
}

type Pair = [string, string];

function written(value: unknown, of: MapOf): string {
  if (typeof value !== "string") return JSON.stringify(value);
  // A text that would be read as something else is written as what it is.
  return of === "any" && readValue(value, of) !== value ? JSON.stringify(value) : value;
}

function pairsOf(value: unknown, of: MapOf): Pair[] {
  const pairs = Object.entries((value ?? {}) as Record<string, unknown>).map(
    ([name, each]): Pair => [name, written(each, of)],
  );
  return pairs.length > 0 ? pairs : [["", ""]];
}

/** Text that is JSON is what it says, where that may be: nested selectors are written so. */
function readValue(text: string, of: MapOf): unknown {
  if (of === "text" || (of === "selectors" && !text.trim().startsWith("{"))) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Names and values, a pair on each line. */
export function PairEditor(props: PairEditorProps) {
  const t = useT();
  const [pairs, setPairs] = useState<Pair[]>(() => pairsOf(props.value, props.of));
  function change(next: Pair[]): void {
    setPairs(next);
    const named = next.filter(([name]) => name.trim() !== "");
    props.onChange(
      named.length > 0
        ? Object.fromEntries(named.map(([name, text]) => [name.trim(), readValue(text, props.of)]))
        : undefined,
    );
  }
  const selectors = props.of === "selectors";
  return (
    <div className="stack tight">
      {pairs.map(([name, text], index) => (
        <div className="row" key={index}>
          <input
            id={index === 0 ? props.id : undefined}
            className="input pair-name"
            aria-label={t("submit.pairName", { n: index + 1 })}
            placeholder={index === 0 ? (props.namePlaceholder ?? t("common.name")) : ""}
            value={name}
            onChange={(event) =>
              change(pairs.map((pair, at) => (at === index ? [event.target.value, text] : pair)))
            }
          />
          <input
            className="input mono grow"
            aria-label={
              selectors
                ? t("submit.pairSelector", { n: index + 1 })
                : t("submit.pairValue", { n: index + 1 })
            }
            placeholder={index === 0 ? (props.valuePlaceholder ?? "") : ""}
            value={text}
            onChange={(event) =>
              change(pairs.map((pair, at) => (at === index ? [name, event.target.value] : pair)))
            }
          />
          <Button
            look="plain"
            icon="close"
            aria-label={t("submit.pairRemove", { n: index + 1 })}
            onClick={() =>
              change(pairs.length > 1 ? pairs.filter((_, at) => at !== index) : [["", ""]])
            }
          />
        </div>
      ))}
      <div>
        <Button size="small" icon="submit" onClick={() => setPairs([...pairs, ["", ""]])}>
          {t("submit.pairAdd")}
        </Button>
      </div>
    </div>
  );
}
