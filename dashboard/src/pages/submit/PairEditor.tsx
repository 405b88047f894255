import { useState } from "react";
import { useT } from "../../i18n";
import { Button } from "../../ui/basics";

interface PairEditorProps {
  id: string;
  value: unknown;
  onChange: (value: Record<string, unknown> | undefined) => void;
  namePlaceholder?: string;
  valuePlaceholder?: string;
}

type Pair = [string, string];

function pairsOf(value: unknown): Pair[] {
  const pairs = Object.entries((value ?? {}) as Record<string, unknown>).map(
    ([name, each]): Pair => [name, typeof each === "string" ? each : JSON.stringify(each)],
  );
  return pairs.length > 0 ? pairs : [["", ""]];
}

/** Text that is an object of JSON is one: nested selectors can be written so. */
function readValue(text: string): unknown {
  if (!text.trim().startsWith("{")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Names and values, a pair on each line. */
export function PairEditor(props: PairEditorProps) {
  const t = useT();
  const [pairs, setPairs] = useState<Pair[]>(() => pairsOf(props.value));
  function change(next: Pair[]): void {
    setPairs(next);
    const named = next.filter(([name]) => name.trim() !== "");
    props.onChange(
      named.length > 0
        ? Object.fromEntries(named.map(([name, text]) => [name.trim(), readValue(text)]))
        : undefined,
    );
  }
  return (
    <div className="stack tight">
      {pairs.map(([name, text], index) => (
        <div className="row" key={index}>
          <input
            id={index === 0 ? props.id : undefined}
            className="input pair-name"
            aria-label={t("submit.pairName", { n: index + 1 })}
            placeholder={props.namePlaceholder ?? t("common.name")}
            value={name}
            onChange={(event) =>
              change(pairs.map((pair, at) => (at === index ? [event.target.value, text] : pair)))
            }
          />
          <input
            className="input mono grow"
            aria-label={t("submit.pairValue", { n: index + 1 })}
            placeholder={props.valuePlaceholder ?? ""}
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
