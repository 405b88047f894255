/** The log of an execution: what was said, then what is said, until it ends. */
import { useEffect, useState } from "react";
import type { LogLineView } from "../generated/api";
import { appended } from "../lib/fold";
import { MessageReader } from "../lib/sse";
import { address, headers, Problem, parsed } from "./client";

export interface Log {
  lines: readonly LogLineView[];
  state: "reading" | "following" | "ended" | "broken" | "refused";
  /** Why the master does not look for this, if it does not. */
  refusal?: Problem;
}

/** Which lines are wanted; the master looks for them, in all that was said. */
export interface Wanted {
  level: string;
  q: string;
  regex: boolean;
}

const FLUSH_MS = 300;
const MOST_LINES = 5000;
const AGAIN_MS = 2000;

async function follow(
  id: string,
  wanted: Wanted,
  after: number,
  signal: AbortSignal,
  take: (line: LogLineView) => void,
): Promise<boolean> {
  const where = address("/api/v1/executions/{id}/logs", { id }, { ...wanted, follow: true, after });
  const response = await fetch(where, {
    headers: headers("get", { Accept: "text/event-stream" }),
    credentials: "same-origin",
    signal,
  });
  if (response.status === 422) throw new Problem(422, parsed(await response.text()));
  if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const messages = new MessageReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    for (const message of messages.push(value)) {
      if (message.event === "end") return true;
      if (message.event === "line") take(JSON.parse(message.data) as LogLineView);
    }
  }
}

export function useLog(executionId: string | null, { level, q, regex }: Wanted): Log {
  const [log, setLog] = useState<Log>({ lines: [], state: "reading" });
  useEffect(() => {
    setLog({ lines: [], state: "reading" });
    if (!executionId) return;
    const stop = new AbortController();
    let pending: LogLineView[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    let after = 0;
    const flush = (state: Log["state"]) => {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      const more = pending;
      pending = [];
      setLog((before) => ({ lines: appended(before.lines, more, MOST_LINES), state }));
    };
    const run = async () => {
      while (!stop.signal.aborted) {
        try {
          const wanted = { level, q, regex };
          const ended = await follow(executionId, wanted, after, stop.signal, (line) => {
            after = line.seq;
            pending.push(line);
            timer ??= setTimeout(() => flush("following"), FLUSH_MS);
          });
          if (stop.signal.aborted) return;
          flush(ended ? "ended" : "following");
          if (ended) return;
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error instanceof Problem) {
            setLog({ lines: [], state: "refused", refusal: error });
            return;
          }
          flush("broken");
          await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        }
      }
    };
    void run();
    return () => {
      stop.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [executionId, level, q, regex]);
  return log;
}
