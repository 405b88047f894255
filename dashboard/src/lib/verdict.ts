/** The fleet in one word, for who has five seconds. */
export interface Vital {
  nodes: Record<string, number>;
  ready: number;
  high: number;
  medium: number;
}

export type Verdict = "empty" | "stopped" | "urgent" | "uneasy" | "healthy";

export function judge({ nodes, ready, high, medium }: Vital): Verdict {
  const known = Object.values(nodes).reduce((sum, each) => sum + each, 0);
  if (known === 0) return "empty";
  const able = (nodes.online ?? 0) + (nodes.draining ?? 0);
  if (able === 0 && ready > 0) return "stopped";
  if (high > 0) return "urgent";
  return medium > 0 || able === 0 ? "uneasy" : "healthy";
}
