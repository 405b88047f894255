import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { useLog } from "../api/logs";
import type { LogLineView } from "../generated/api";
import { useT, useWord } from "../i18n";
import { matches } from "../lib/matching";
import { Button, Clock, Segments } from "./basics";

const TONES: Record<string, string> = { warning: "tone-warn", error: "tone-bad", debug: "muted" };
const LEVELS = ["debug", "info", "warning", "error"] as const;

function fieldsText(fields: LogLineView["fields"]): string {
  return Object.entries(fields ?? {})
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("  ");
}

/** A log that scrolls along with what is said, unless one has scrolled back to read. */
export function LogView({ executionId }: { executionId: string | null }) {
  const t = useT();
  const word = useWord();
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("debug");
  const [text, setText] = useState("");
  const [along, setAlong] = useState(true);
  const log = useLog(executionId, level);
  const box = useRef<HTMLDivElement>(null);
  const lines = text
    ? log.lines.filter((line) => matches(text, `${line.message} ${fieldsText(line.fields)}`))
    : log.lines;
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => 21,
    overscan: 20,
  });
  const { length } = lines;
  useEffect(() => {
    if (along && length > 0) virtual.scrollToIndex(length - 1);
  }, [along, length, virtual]);

  if (!executionId) return <p className="muted">{t("log.notStarted")}</p>;
  return (
    <div className="stack tight">
      <div className="row wrap">
        <Segments
          label={t("log.level")}
          value={level}
          options={LEVELS.map((each) => [each, word("level", each)])}
          onChange={setLevel}
        />
        <input
          className="input auto"
          type="search"
          aria-label={t("log.search")}
          placeholder={t("log.search")}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="grow" />
        <span className="muted small" role="status">
          {t(`log.${log.state}`)}
        </span>
        {!along && (
          <Button size="small" icon="down" onClick={() => setAlong(true)}>
            {t("log.along")}
          </Button>
        )}
      </div>
      <div
        className="log"
        role="log"
        aria-label={t("log.title")}
        tabIndex={0}
        ref={box}
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          setAlong(scrollHeight - scrollTop - clientHeight < 40);
        }}
      >
        {length === 0 && <p className="log-line muted">{t("log.nothing")}</p>}
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map((item) => {
            const line = lines[item.index];
            if (!line) return null;
            return (
              <div
                key={item.key}
                ref={virtual.measureElement}
                data-index={item.index}
                className="log-line"
                style={{
                  position: "absolute",
                  insetInline: 0,
                  transform: `translateY(${item.start}px)`,
                }}
              >
                <span className="muted">
                  <Clock at={line.at} />
                </span>
                <span className={TONES[line.level] ?? ""}>{line.level}</span>
                <span className="message">
                  {line.message} <span className="fields">{fieldsText(line.fields)}</span>
                </span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
