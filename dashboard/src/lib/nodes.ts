/** Which nodes a view shows, in which order. */
import type { NodeView } from "../generated/api";
import { matches } from "./matching";

export interface NodeFilter {
  text: string;
  status: string;
  health: string;
  region: string;
  cluster: string;
}

export function nodeFilter(search: URLSearchParams): NodeFilter {
  const value = (name: string) => search.get(name) ?? "";
  return {
    text: value("q"),
    status: value("status"),
    health: value("health"),
    region: value("region"),
    cluster: value("cluster"),
  };
}

/** Whether what it measures comes in. */
export function isConnected(node: Pick<NodeView, "status">): boolean {
  return node.status !== "offline" && node.status !== "pending";
}

export function fits(node: NodeView, filter: NodeFilter): boolean {
  const labels = Object.entries(node.labels).flat().join(" ");
  return (
    (!filter.status || node.status === filter.status) &&
    (!filter.health || node.health === filter.health) &&
    (!filter.region || node.region === filter.region) &&
    (!filter.cluster || node.cluster_id === filter.cluster) &&
    matches(filter.text, `${node.name} ${node.id} ${node.region ?? ""} ${labels}`)
  );
}

export type NodeOrder = "name" | "status" | "cpu" | "memory" | "network" | "tasks";
const KEYS: Record<NodeOrder, (node: NodeView) => string | number> = {
  name: (node) => node.name,
  status: (node) => node.status,
  cpu: (node) => node.usage.cpu_usage ?? 0,
  memory: (node) => node.usage.memory_usage ?? 0,
  network: (node) => node.usage.network_io ?? 0,
  tasks: (node) => node.active_tasks.length,
};

/** `-cpu` is by CPU, the busiest first. */
export function ordered(nodes: readonly NodeView[], order: string): NodeView[] {
  const name = order.replace(/^-/, "");
  const key = name in KEYS ? KEYS[name as NodeOrder] : KEYS.name;
  const sign = order.startsWith("-") ? -1 : 1;
  return [...nodes].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    const compared =
      typeof a === "string"
        ? a.localeCompare(String(b), undefined, { numeric: true })
        : a - Number(b);
    return sign * compared || one.id.localeCompare(other.id);
  });
}

export function distinct(values: Iterable<string | null | undefined>): string[] {
  const found = new Set<string>();
  for (const value of values) if (value) found.add(value);
  return [...found].sort();
}
