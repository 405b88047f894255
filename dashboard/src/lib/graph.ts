/** A graph without cycles as a drawing: layers from left to right, few crossings, no overlaps. */

export type On = "success" | "failure" | "always";

export interface Before {
  step: string;
  on: On;
}

export interface Vertex {
  name: string;
  after: readonly Before[];
}

export interface Place {
  name: string;
  layer: number;
  /** Of the upper left corner. */
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  on: On;
  /** What an SVG path is drawn by. */
  path: string;
  /** Where a word about it can stand. */
  middle: { x: number; y: number };
}

export interface Drawing {
  width: number;
  height: number;
  places: Map<string, Place>;
  /** From left to right, each from top to bottom. */
  layers: string[][];
  edges: Edge[];
}

export const SIZE = { width: 172, height: 52, across: 48, down: 16, margin: 14 } as const;
const SWEEPS = 6;
const SETTLINGS = 4;
/** How high a line is that passes a layer. */
const LINE = 8;
/** With more bends than this, long lines go straight: they are a thicket in any case. */
const MOST_BENDS = 3000;

/** What stands in a layer: a vertex, or the bend of a line on its way past. */
interface Spot {
  id: string;
  layer: number;
  isBend: boolean;
  before: Spot[];
  after: Spot[];
  order: number;
  /** Of its middle. */
  y: number;
}

/** The layer of each vertex: one more than that of the last one that it comes after. */
export function layersOf(vertices: readonly Vertex[]): Map<string, number> {
  const known = new Set(vertices.map((each) => each.name));
  const followers = new Map<string, string[]>();
  const left = new Map<string, number>();
  const layers = new Map<string, number>();
  for (const { name, after } of vertices) {
    const real = after.filter((each) => known.has(each.step));
    left.set(name, real.length);
    layers.set(name, 0);
    for (const { step } of real) followers.set(step, [...(followers.get(step) ?? []), name]);
  }
  const ready = vertices.map((each) => each.name).filter((name) => left.get(name) === 0);
  for (const name of ready) {
    for (const next of followers.get(name) ?? []) {
      layers.set(next, Math.max(layers.get(next) ?? 0, (layers.get(name) ?? 0) + 1));
      const more = (left.get(next) ?? 1) - 1;
      left.set(next, more);
      if (more === 0) ready.push(next);
    }
  }
  return layers;
}

function spot(id: string, layer: number, isBend: boolean): Spot {
  return { id, layer, isBend, before: [], after: [], order: 0, y: 0 };
}

function join(from: Spot, to: Spot): void {
  if (from.after.includes(to)) return;
  from.after.push(to);
  to.before.push(from);
}

interface Line extends Before {
  to: string;
  way: Spot[];
}

/** Vertices and bends in their layers. Lines from one vertex share their way for as long as they
 * can, so that a step that many others need is one trunk and not a hundred. */
function spread(vertices: readonly Vertex[]): { layers: Spot[][]; lines: Line[] } {
  const numbers = layersOf(vertices);
  const spots = new Map(
    vertices.map(({ name }) => [name, spot(name, numbers.get(name) ?? 0, false)]),
  );
  const layers: Spot[][] = Array.from(
    { length: Math.max(0, ...numbers.values()) + 1 },
    (): Spot[] => [],
  );
  for (const each of spots.values()) layers[each.layer]?.push(each);
  const bends = new Map<string, Spot>();
  const lines: Line[] = [];
  for (const { name, after } of vertices) {
    const to = spots.get(name) as Spot;
    for (const { step, on } of after) {
      const from = spots.get(step);
      if (!from || from.layer >= to.layer) continue;
      const way = [from];
      for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
        const id = `${on} ${layer} ${step}`;
        let bend = bends.get(id);
        if (!bend) {
          if (bends.size >= MOST_BENDS) break;
          bend = spot(id, layer, true);
          bends.set(id, bend);
          layers[layer]?.push(bend);
        }
        join(way.at(-1) as Spot, bend);
        way.push(bend);
      }
      join(way.at(-1) as Spot, to);
      lines.push({ step, on, to: name, way: [...way, to] });
    }
  }
  return { layers, lines };
}

function mean(spots: readonly Spot[], of: (each: Spot) => number): number {
  return spots.reduce((sum, each) => sum + of(each), 0) / spots.length;
}

function number(layer: Spot[]): void {
  layer.forEach((each, index) => {
    each.order = index;
  });
}

/** Put those beside each other that have the same neighbours, forth and back a few times. */
function order(layers: Spot[][]): void {
  for (const layer of layers) number(layer);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const layer of forth ? layers : [...layers].reverse()) {
      const wish = new Map(
        layer.map((each) => {
          const near = forth ? each.before : each.after;
          return [each, near.length ? mean(near, ({ order }) => order) : each.order];
        }),
      );
      layer.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || a.order - b.order);
      number(layer);
    }
  }
}

function roomOf(each: Spot): number {
  return each.isBend ? LINE : SIZE.height;
}

/** As near to their wishes as can be without an overlap: those that want the same place share it
 * evenly (pool adjacent violators). */
function settle(layer: readonly Spot[], wish: (each: Spot) => number): void {
  const offsets: number[] = [];
  layer.forEach((each, index) => {
    const above = layer[index - 1];
    offsets.push(
      above ? (offsets[index - 1] ?? 0) + (roomOf(above) + roomOf(each)) / 2 + SIZE.down : 0,
    );
  });
  const pools: { sum: number; size: number }[] = [];
  layer.forEach((each, index) => {
    let pool = { sum: wish(each) - (offsets[index] ?? 0), size: 1 };
    for (let last = pools.at(-1); last && last.sum / last.size > pool.sum / pool.size; ) {
      pools.pop();
      pool = { sum: pool.sum + last.sum, size: pool.size + last.size };
      last = pools.at(-1);
    }
    pools.push(pool);
  });
  let index = 0;
  for (const { sum, size } of pools) {
    for (let n = 0; n < size; n += 1, index += 1) {
      const each = layer[index];
      if (each) each.y = sum / size + (offsets[index] ?? 0);
    }
  }
}

function level(layers: Spot[][]): void {
  for (const layer of layers) settle(layer, (each) => each.order * (SIZE.height + SIZE.down));
  for (let round = 0; round < SETTLINGS; round += 1) {
    const forth = round % 2 === 0;
    for (const layer of forth ? layers : [...layers].reverse()) {
      settle(layer, (each) => {
        const near = forth ? each.before : each.after;
        return near.length ? mean(near, ({ y }) => y) : each.y;
      });
    }
  }
}

function edgeOf({ step, to, on, way }: Line, x: (layer: number) => number, up: number): Edge {
  let path = "";
  let middle = { x: 0, y: 0 };
  way.slice(1).forEach((end, index) => {
    const start = way[index] as Spot;
    const [x1, y1] = [x(start.layer) + SIZE.width, start.y - up];
    const [x2, y2] = [x(end.layer), end.y - up];
    const bow = Math.min(SIZE.across, x2 - x1) / 2;
    if (index === 0) {
      path = `M${round(x1)} ${round(y1)}`;
      middle = { x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
    } else path += `H${round(x1)}`;
    path += `C${round(x1 + bow)} ${round(y1)} ${round(x2 - bow)} ${round(y2)} ${round(x2)} ${round(y2)}`;
  });
  return { from: step, to, on, path, middle };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export function draw(vertices: readonly Vertex[]): Drawing {
  const { layers, lines } = spread(vertices);
  order(layers);
  level(layers);
  const all = layers.flat();
  const top = Math.min(...all.map((each) => each.y - roomOf(each) / 2)) - SIZE.margin;
  const bottom = Math.max(...all.map((each) => each.y + roomOf(each) / 2)) + SIZE.margin;
  const x = (layer: number) => SIZE.margin + layer * (SIZE.width + SIZE.across);
  const places = new Map<string, Place>();
  const real = layers.map((layer) => layer.filter((each) => !each.isBend));
  for (const { id, layer, y } of real.flat()) {
    places.set(id, {
      name: id,
      layer,
      x: x(layer),
      y: round(y - SIZE.height / 2 - top),
    });
  }
  return {
    width: all.length ? x(layers.length - 1) + SIZE.width + SIZE.margin : 0,
    height: all.length ? round(bottom - top) : 0,
    places,
    layers: real.map((layer) => layer.map((each) => each.id)),
    edges: lines.map((line) => edgeOf(line, x, top)),
  };
}
