/** What views ask of the master, each under one name, so that news can renew it. */
import { QueryClient, queryOptions } from "@tanstack/react-query";
import { isLive } from "../lib/steps";
import { throttle } from "../lib/throttle";
import { call, Problem } from "./client";
import { live } from "./live";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      gcTime: 60_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) => failures < 2 && !(error instanceof Problem && error.status < 500),
    },
  },
});

const FRESH_MS = 5000;

export const statistics = queryOptions({
  queryKey: ["statistics"],
  queryFn: () => call("get", "/api/v1/statistics"),
  refetchInterval: FRESH_MS,
});

export const status = queryOptions({
  queryKey: ["status"],
  queryFn: () => call("get", "/api/v1/status"),
  refetchInterval: 30_000,
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: () => call("get", "/api/v1/nodes"),
  refetchInterval: FRESH_MS,
});

export const node = (node_id: string) =>
  queryOptions({
    queryKey: ["nodes", node_id],
    queryFn: () => call("get", "/api/v1/nodes/{node_id}", { path: { node_id } }),
    refetchInterval: FRESH_MS,
  });

export const nodeHistory = (
  node_id: string,
  resolution: "raw" | "minute" | "hour",
  limit: number,
  everyMs = FRESH_MS,
) =>
  queryOptions({
    queryKey: ["history", node_id, resolution, limit],
    queryFn: () =>
      call("get", "/api/v1/nodes/{node_id}/history", {
        path: { node_id },
        query: { resolution, limit },
      }),
    refetchInterval: everyMs,
  });

export const series = (minutes: number) =>
  queryOptions({
    queryKey: ["series", minutes],
    queryFn: () => call("get", "/api/v1/statistics/series", { query: { minutes } }),
    refetchInterval: FRESH_MS,
    placeholderData: (before) => before,
  });

export const attention = queryOptions({
  queryKey: ["attention"],
  queryFn: () => call("get", "/api/v1/attention"),
  refetchInterval: FRESH_MS,
});

export const taskTypes = queryOptions({
  queryKey: ["task-types"],
  queryFn: () => call("get", "/api/v1/task-types"),
  staleTime: 60_000,
});

export const projects = queryOptions({
  queryKey: ["projects"],
  queryFn: () => call("get", "/api/v1/projects", { query: { limit: 1000 } }),
  staleTime: 10_000,
});

export const clusters = queryOptions({
  queryKey: ["clusters"],
  queryFn: () => call("get", "/api/v1/clusters", { query: { limit: 1000 } }),
  staleTime: 10_000,
});

export const bundles = (project_id: string) =>
  queryOptions({
    queryKey: ["bundles", project_id],
    queryFn: () =>
      call("get", "/api/v1/projects/{project_id}/bundles", {
        path: { project_id },
        query: { limit: 1000 },
      }),
    refetchInterval: 15_000,
  });

export const bundle = (project_id: string, bundle_id: string) =>
  queryOptions({
    queryKey: ["bundles", project_id, bundle_id],
    queryFn: () =>
      call("get", "/api/v1/projects/{project_id}/bundles/{bundle_id}", {
        path: { project_id, bundle_id },
      }),
    refetchInterval: 10_000,
  });

export const schedules = queryOptions({
  queryKey: ["schedules"],
  queryFn: () => call("get", "/api/v1/schedules", { query: { limit: 1000 } }),
  refetchInterval: FRESH_MS,
});

export const schedule = (schedule_id: string) =>
  queryOptions({
    queryKey: ["schedules", schedule_id],
    queryFn: () => call("get", "/api/v1/schedules/{schedule_id}", { path: { schedule_id } }),
    refetchInterval: FRESH_MS,
  });

export const scheduleNext = (schedule_id: string, edition: number, count: number) =>
  queryOptions({
    queryKey: ["schedules", schedule_id, "next", edition, count],
    queryFn: () =>
      call("get", "/api/v1/schedules/{schedule_id}/next", {
        path: { schedule_id },
        query: { count },
      }),
    refetchInterval: 60_000,
  });

export const workflows = queryOptions({
  queryKey: ["workflows"],
  queryFn: () => call("get", "/api/v1/workflows", { query: { limit: 1000 } }),
  refetchInterval: 15_000,
});

export const workflow = (workflow_id: string) =>
  queryOptions({
    queryKey: ["workflows", workflow_id],
    queryFn: () => call("get", "/api/v1/workflows/{workflow_id}", { path: { workflow_id } }),
    refetchInterval: 15_000,
  });

/** A version of a document never changes. */
export const workflowDocument = (workflow_id: string, version: number) =>
  queryOptions({
    queryKey: ["workflow-document", workflow_id, version],
    queryFn: () =>
      call("get", "/api/v1/workflows/{workflow_id}/document", {
        path: { workflow_id },
        query: { version },
      }),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const run = (run_id: string) =>
  queryOptions({
    queryKey: ["runs", run_id],
    queryFn: () => call("get", "/api/v1/runs/{run_id}", { path: { run_id } }),
    refetchInterval: ({ state }) => (isLive(state.data?.status) ? 3000 : false),
  });

/** All steps of a run that is small enough to be drawn. */
export const runSteps = (run_id: string, status: string) =>
  queryOptions({
    queryKey: ["runs", run_id, "steps"],
    queryFn: () =>
      call("get", "/api/v1/runs/{run_id}/steps", { path: { run_id }, query: { limit: 1000 } }),
    refetchInterval: isLive(status) ? 2000 : false,
  });

export const quotas = queryOptions({
  queryKey: ["quotas"],
  queryFn: () => call("get", "/api/v1/quotas", { query: { limit: 1000 } }),
  refetchInterval: 3000,
});

export const webhooks = queryOptions({
  queryKey: ["webhooks"],
  queryFn: () => call("get", "/api/v1/webhooks", { query: { limit: 1000 } }),
  refetchInterval: 15_000,
});

export const webhook = (webhook_id: string) =>
  queryOptions({
    queryKey: ["webhooks", webhook_id],
    queryFn: () => call("get", "/api/v1/webhooks/{webhook_id}", { path: { webhook_id } }),
    refetchInterval: FRESH_MS,
  });

export const alerts = queryOptions({
  queryKey: ["alerts"],
  queryFn: () => call("get", "/api/v1/alerts"),
  refetchInterval: FRESH_MS,
});

export const task = (task_id: string) =>
  queryOptions({
    queryKey: ["task", task_id],
    queryFn: () => call("get", "/api/v1/tasks/{task_id}", { path: { task_id } }),
    refetchInterval: ({ state }) => (isOver(state.data?.status) ? false : 2000),
  });

export const executions = (task_id: string) =>
  queryOptions({
    queryKey: ["task", task_id, "executions"],
    queryFn: () => call("get", "/api/v1/tasks/{task_id}/executions", { path: { task_id } }),
  });

export const taskEvents = (task_id: string) =>
  queryOptions({
    queryKey: ["task", task_id, "events"],
    queryFn: () =>
      call("get", "/api/v1/tasks/{task_id}/events", { path: { task_id }, query: { limit: 1000 } }),
  });

export const explanation = (task_id: string) =>
  queryOptions({
    queryKey: ["task", task_id, "explain"],
    queryFn: () => call("get", "/api/v1/tasks/{task_id}:explain", { path: { task_id } }),
    refetchInterval: FRESH_MS,
  });

export const crawl = (id: string) =>
  queryOptions({
    queryKey: ["crawl", id],
    queryFn: () => call("get", "/api/v1/crawls/{task_id}", { path: { task_id: id } }),
    refetchInterval: ({ state }) => (isOver(state.data?.state) ? false : 1500),
  });

export const crawlWork = (id: string, state: string) =>
  queryOptions({
    queryKey: ["crawl", id, "work"],
    queryFn: () => call("get", "/api/v1/crawls/{task_id}/work", { path: { task_id: id } }),
    refetchInterval: isOver(state) ? false : 2000,
  });

const OVER = new Set(["completed", "failed", "timeout", "cancelled"]);

export function isOver(state: string | undefined): boolean {
  return state !== undefined && OVER.has(state);
}

/** Renew what is shown when something happens; each at its own pace. */
export function renewByNews(): () => void {
  const renew = (key: string[], everyMs: number) =>
    throttle(() => void queryClient.invalidateQueries({ queryKey: key }), everyMs);
  const numbers = renew(["statistics"], 1000);
  const attentionList = renew(["attention"], 3000);
  const fleet = renew(["nodes"], 1000);
  const tenants = renew(["projects"], 2000);
  const allowances = renew(["quotas"], 2000);
  const measured = renew(["quality"], 3000);
  const runs = renew(["runs"], 1000);
  const hooks = renew(["webhooks"], 1000);
  const byFamily: Record<string, () => void> = {
    node: fleet,
    project: () => {
      tenants();
      allowances();
    },
    cluster: renew(["clusters"], 2000),
    key: renew(["keys"], 2000),
    bundle: renew(["bundles"], 2000),
    schedule: renew(["schedules"], 1000),
    workflow: renew(["workflows"], 2000),
    run: runs,
    step: runs,
    webhook: hooks,
    delivery: hooks,
    alert: renew(["alerts"], 1000),
  };
  const stopReturning = live.hearReturn(() => void queryClient.invalidateQueries());
  const stopHearing = live.hear((news) => {
    if (news.tasks.size > 0) numbers();
    if ([...news.tasks.values()].some(({ status }) => isOver(status))) measured();
    for (const family of news.others) {
      byFamily[family]?.();
      attentionList();
    }
    for (const id of news.tasks.keys()) {
      if (queryClient.getQueryState(["task", id])) {
        void queryClient.invalidateQueries({ queryKey: ["task", id] });
      }
    }
  });
  return () => {
    stopReturning();
    stopHearing();
  };
}
