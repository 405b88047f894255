/** Routes whose types are not in the generated file yet, written by hand to the same shapes. */
import { address, send } from "./client";

export interface SeriesPoint {
  at: string;
  tasks: Record<string, number>;
  finished: number;
  failed: number;
  errors: Record<string, number>;
  pages: number;
  queue_age_s: number | null;
}

export interface Series {
  step_s: number;
  points: SeriesPoint[];
}

export interface AttentionItem {
  severity: "high" | "medium" | "low";
  kind: string;
  subject: { kind: string; id: string };
  message: string;
  remedy: string;
  count: number;
}

export interface TaskType {
  name: string;
  summary: string;
  parameters: Record<string, unknown> | null;
  nodes: number;
}

export interface HostFigures {
  host: string;
  pages: number;
  waiting: number;
  errors: number;
  latency_ms: number | null;
  delay_s: number;
  rests_until: string | null;
  why: string;
}

export interface CrawlFigures {
  at: string;
  pages: number;
  rate_per_s: number;
  items: number;
  bytes: number;
  requests: number;
  retries: number;
  known: number;
  waiting: number;
  in_flight: number;
  done: number;
  failed: number;
  rejected: number;
  outcomes: Record<string, number>;
  depths: number[];
  hosts: HostFigures[];
  rates: { at: string; pages: number }[];
}

export interface Crawl {
  task_id: string;
  state: string;
  url: string;
  name: string;
  project: string;
  started_at: string | null;
  finished_at: string | null;
  figures: CrawlFigures | null;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export type CrawlItem = Record<string, unknown>;

const V1 = "/api/v1";

export const contract = {
  series: (minutes: number) =>
    send("get", address(`${V1}/statistics/series`, {}, { minutes })) as Promise<Series>,
  attention: () => send("get", `${V1}/attention`) as Promise<{ items: AttentionItem[] }>,
  taskTypes: () => send("get", `${V1}/task-types`) as Promise<Page<TaskType>>,
  crawls: (query: Record<string, unknown>) =>
    send("get", address(`${V1}/crawls`, {}, query)) as Promise<Page<Crawl>>,
  crawl: (id: string) => send("get", address(`${V1}/crawls/{id}`, { id })) as Promise<Crawl>,
  crawlItems: (id: string, query: Record<string, unknown>) =>
    send("get", address(`${V1}/crawls/{id}/items`, { id }, query)) as Promise<Page<CrawlItem>>,
  crawlUrl: (id: string, url: string) =>
    send("get", address(`${V1}/crawls/{id}/urls`, { id }, { url })) as Promise<
      Record<string, unknown>
    >,
  crawlOrder: (id: string, verb: string) =>
    send("post", address(`${V1}/crawls/{id}:${verb}`, { id })) as Promise<unknown>,
  outputAddress: (id: string, format: string) =>
    address(`${V1}/crawls/{id}/output`, { id }, { format }),
};
