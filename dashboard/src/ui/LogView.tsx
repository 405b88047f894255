import { useLayoutEffect, useRef, useState } from "react";
import { useLog } from "../api/logs";
import type { LogLineView } from "../generated/api";
import { useT, useWord } from "../i18n";
import { useRetelling } from "../i18n/retelling";
import { marked } from "../lib/matching";
import { useSettled } from "../lib/settled";
import { useUneven } from "../lib/uneven";
import { Button, Clock, Segments } from "./basics";

const TONES: Record<string, string> = { warning: "tone-warn", error: "tone-bad", debug: "muted" };
const LINE_PX = 21;
const LEVELS = ["debug", "info", "warning", "error"] as const;

function fieldsText(fields: LogLineView["fields"]): string {
  return Object.entries(fields ?? {})
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("  ");
}

/** What was searched for stands out. */
function Found({ text, sought }: { text: string; sought: string }) {
  return marked(text, sought).map(([part, isFound], index) =>
    isFound ? <mark key={index}>{part}</mark> : part,
  );
}

/** A log that scrolls along with what is said, unless one has scrolled back to read. */
export function LogView({ executionId }: { executionId: string | null }) {
  const t = useT();
  const word = useWord();
  const { problem } = useRetelling();
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("debug");
  const [text, setText] = useState("");
  const [regex, setRegex] = useState(false);
  const [along, setAlong] = useState(true);
  const q = useSettled(text);
  const log = useLog(executionId, { level, q, regex: regex && q !== "" });
  const box = useRef<HTMLDivElement>(null);
  const { lines } = log;
  const { length } = lines;
  const rows = useRef<HTMLDivElement>(null);
  const sight = useUneven(box, rows, length, LINE_PX);
  // Again when lines turn out to be higher than was thought.
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say when
  useLayoutEffect(() => {
    if (along && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [along, length, sight]);

  if (!executionId) return <p className="muted">{t("log.notStarted")}</p>;
  const sought = regex ? "" : q;
  return (
    <div className="stack tight">
      <div className="row wrap">
        <Segments
          label={t("log.level")}
          value={level}
          options={LEVELS.map((each) => [each, word("level", each)])}
          onChange={setLevel}
        />
        <div className="row tight search-log">
          <input
            className="input grow"
            type="search"
            aria-label={t("log.search")}
            placeholder={t("log.search")}
            maxLength={500}
            aria-invalid={log.refusal ? true : undefined}
            aria-describedby={log.refusal ? "log-refusal" : undefined}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <Button
            aria-pressed={regex}
            aria-label={t("log.regex")}
            title={t("log.regex")}
            className="mono"
            onClick={() => setRegex(!regex)}
          >
            .*
          </Button>
        </div>
        <span className="grow" />
        <span className="muted small" role="status">
          {q && log.state !== "refused" ? `${t("log.found", { n: length })} · ` : ""}
          {t(`log.${log.state}`)}
        </span>
        <Button size="small" icon="down" aria-pressed={along} onClick={() => setAlong(!along)}>
          {t("log.along")}
        </Button>
      </div>
      {log.refusal && (
        <div className="wrong small" id="log-refusal" role="alert">
          {problem(log.refusal)}
        </div>
      )}
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
        {length === 0 && (
          <p className="log-empty muted">
            {t(q || level !== "debug" ? "log.noneFit" : "log.nothing")}
          </p>
        )}
        <div style={{ height: sight.above }} />
        <div ref={rows}>
          {lines.slice(sight.first, sight.end).map((line) => (
            <div key={line.seq} className="log-line">
              <span className="muted">
                <Clock at={line.at} />
              </span>
              <span className={TONES[line.level] ?? ""}>{line.level}</span>
              <span className="message">
                <Found text={line.message} sought={sought} />{" "}
                <span className="fields">
                  <Found text={fieldsText(line.fields)} sought={sought} />
                </span>
              </span>
            </div>
          ))}
        </div>
        <div style={{ height: sight.below }} />
      </div>
    </div>
  );
}
