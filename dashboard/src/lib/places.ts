import type { NodeView } from "../generated/api";

export interface Group {
  region: string;
  latitude: number;
  longitude: number;
  nodes: number;
  online: number;
  tone: "ok" | "warn" | "bad" | "quiet";
}

type Placed = Pick<NodeView, "region" | "status" | "health"> & {
  location?: { latitude: number; longitude: number } | null | undefined;
};

const TROUBLED = new Set(["unhealthy", "unreachable"]);

/** Nodes by region, with the worst of each; those of no known place are only counted. */
export function groupByPlace(nodes: readonly Placed[]): { groups: Group[]; elsewhere: number } {
  const groups = new Map<string, Group>();
  let elsewhere = 0;
  for (const node of nodes) {
    if (!node.region || !node.location) {
      elsewhere += 1;
      continue;
    }
    const group = groups.get(node.region) ?? {
      region: node.region,
      ...node.location,
      nodes: 0,
      online: 0,
      tone: "quiet" as const,
    };
    group.nodes += 1;
    if (node.status === "online") group.online += 1;
    group.tone = worse(group.tone, toneOf(node));
    groups.set(node.region, group);
  }
  return { groups: [...groups.values()], elsewhere };
}

function toneOf(node: Placed): Group["tone"] {
  if (node.status === "unresponsive") return "bad";
  if (node.status === "offline" || node.status === "pending") return "quiet";
  if (TROUBLED.has(node.health)) return "bad";
  return node.status === "online" && node.health !== "degraded" ? "ok" : "warn";
}

const ORDER = ["quiet", "ok", "warn", "bad"] as const;

function worse(a: Group["tone"], b: Group["tone"]): Group["tone"] {
  return ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b;
}

export interface Dot extends Group {
  x: number;
  y: number;
  radius: number;
  /** Above or below the dot, or not at all where there is no room. */
  label: "above" | "below" | "none";
}

const LETTER = 8.6;
const LINE = 18;

/** Where dots and their names are drawn, so that no two names cover each other. */
export function laidOut(
  groups: readonly Group[],
  project: (group: Group) => [number, number],
): Dot[] {
  const taken: [number, number, number][] = []; // left, top, right; all of one height
  const isFree = (left: number, top: number, right: number) =>
    taken.every(([l, t, r]) => right < l || left > r || Math.abs(top - t) > LINE);
  return [...groups]
    .sort((a, b) => b.nodes - a.nodes)
    .map((group) => {
      const [x, y] = project(group);
      const radius = 11 + 5 * Math.sqrt(group.nodes - 1);
      const half = (group.region.length * LETTER) / 2;
      const label = (["below", "above"] as const).find((side) => {
        const top = side === "below" ? y + radius + 10 : y - radius - 28;
        if (!isFree(x - half, top, x + half)) return false;
        taken.push([x - half, top, x + half]);
        return true;
      });
      return { ...group, x, y, radius, label: label ?? "none" };
    });
}

type Place = Pick<Group, "latitude" | "longitude">;

/** The polynomials of the Natural Earth projection (Šavrič, Jenny, Patterson, Petrovič and Hurni,
 * 2011), by powers of the squared latitude. */
const ACROSS = [0.8707, -0.131979, -0.013791, 0, 0, 0.003971, -0.001529];
const DOWN = [1.007226, 0.015085, 0, -0.044475, 0.028874, -0.005916];

function polynomial(factors: readonly number[], x: number): number {
  return factors.reduceRight((sum, factor) => sum * x + factor, 0);
}

/** Where a place of the Earth is on the map that `scripts/land.mjs` has drawn. */
export function naturalEarth(scale: number, [x, y]: readonly [number, number]) {
  return ({ longitude, latitude }: Place): [number, number] => {
    const across = (longitude * Math.PI) / 180;
    const up = (latitude * Math.PI) / 180;
    const squared = up * up;
    return [
      x + scale * across * polynomial(ACROSS, squared),
      y - scale * up * polynomial(DOWN, squared),
    ];
  };
}
