/** The one stream of news from the master. What comes within a moment is told to the page at once,
 * so that a busy fleet costs the browser little; a hidden page reads nothing. */
import { useSyncExternalStore } from "react";
import type { EventView } from "../generated/api";
import { appended, type Fold, fold } from "../lib/fold";
import { MessageReader } from "../lib/sse";
import { headers } from "./client";

export type Connection = "off" | "connecting" | "live" | "lost";
const FLUSH_MS = 400;
const MOST_KEPT = 1000;
const SILENT_MS = 40_000; // the master says something every 15 s
const LONGEST_PAUSE_MS = 15_000;
const WORTH_READING_MS = 60_000; // after a longer absence everything is asked for anew instead

type Listener = (news: Fold, events: readonly EventView[]) => void;

class Live {
  connection: Connection = "off";
  events: EventView[] = [];
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<Listener>();
  private pending: EventView[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private stop: AbortController | null = null;
  private lastId = "";
  private heardAt = 0;
  private readonly returns = new Set<() => void>();

  /** Begin to read, and go on for as long as the page is looked at. */
  start(): () => void {
    const look = () => (document.hidden ? this.close() : this.open());
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
      document.removeEventListener("visibilitychange", look);
      this.close();
      this.lastId = "";
      this.events = [];
    };
  }

  /** Hear of what happened, folded. */
  hear(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Hear of a gap: too much was missed to be read, and what is shown is old. */
  hearReturn(listener: () => void): () => void {
    this.returns.add(listener);
    return () => this.returns.delete(listener);
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private open(): void {
    if (this.stop) return;
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  private close(): void {
    this.stop?.abort();
    this.stop = null;
    this.become("off");
  }

  private async run(signal: AbortSignal): Promise<void> {
    let pause = 500;
    while (!signal.aborted) {
      this.become(this.connection === "lost" ? "lost" : "connecting");
      const began = Date.now();
      try {
        await this.read(signal);
      } catch {
        // Told by the state of the connection; the loop comes back.
      }
      if (signal.aborted) return;
      this.become("lost");
      pause = Date.now() - began > 10_000 ? 500 : Math.min(pause * 2, LONGEST_PAUSE_MS);
      await new Promise((resolve) => setTimeout(resolve, pause * (0.75 + Math.random() / 2)));
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    const away = this.lastId !== "" && Date.now() - this.heardAt > WORTH_READING_MS;
    if (away) this.lastId = "";
    const more: Record<string, string> = { Accept: "text/event-stream" };
    if (this.lastId) more["Last-Event-ID"] = this.lastId;
    const silence = new AbortController();
    let alarm = setTimeout(() => silence.abort(), SILENT_MS);
    try {
      const response = await fetch("/api/v1/events", {
        headers: headers("get", more),
        signal: AbortSignal.any([signal, silence.signal]),
        credentials: "same-origin",
        cache: "no-store",
      });
      if (!response.ok || !response.body) throw new Error(`HTTP ${response.status}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const messages = new MessageReader();
      messages.lastId = this.lastId;
      this.become("live");
      if (away) for (const listener of this.returns) listener();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(alarm);
        alarm = setTimeout(() => silence.abort(), SILENT_MS);
        for (const message of messages.push(value)) this.take(message.data);
        this.lastId = messages.lastId;
        this.heardAt = Date.now();
      }
    } finally {
      clearTimeout(alarm);
    }
  }

  private take(data: string): void {
    this.pending.push(JSON.parse(data) as EventView);
    this.timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  private flush(): void {
    const events = this.pending;
    this.pending = [];
    this.timer = null;
    this.events = appended(this.events, events, MOST_KEPT);
    const news = fold(events);
    for (const listener of this.listeners) listener(news, events);
    this.tell();
  }

  private become(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    this.tell();
  }

  private tell(): void {
    for (const watcher of this.watchers) watcher();
  }
}

export const live = new Live();

export function useConnection(): Connection {
  return useSyncExternalStore(live.watch, () => live.connection);
}

/** The newest events since the page was opened, oldest first. */
export function useNews(): readonly EventView[] {
  return useSyncExternalStore(live.watch, () => live.events);
}
