import { describe, expect, it } from "vitest";
import { type Drawing, draw, layersOf, type On, SIZE, type Vertex } from "../graph";
import { grouped } from "../grouping";

const after = (...steps: string[]) => steps.map((step) => ({ step, on: "success" as On }));
const v = (name: string, ...before: string[]): Vertex => ({ name, after: after(...before) });

const DIAMOND = [v("a"), v("b", "a"), v("c", "a"), v("d", "b", "c"), v("e", "a", "d")];

function overlaps({ places }: Drawing): [string, string][] {
  const all = [...places.values()];
  return all.flatMap((one, index) =>
    all
      .slice(index + 1)
      .filter(
        (other) =>
          Math.abs(one.x - other.x) < SIZE.width && Math.abs(one.y - other.y) < SIZE.height,
      )
      .map((other): [string, string] => [one.name, other.name]),
  );
}

/** A graph of many steps by a plain rule: each comes after up to three earlier ones. */
function many(n: number): Vertex[] {
  return Array.from({ length: n }, (_, i) =>
    v(
      `s${i}`,
      ...new Set(
        [(i * 7) % 13, (i * 3) % 29, i % 5]
          .map((back) => i - 1 - back * 4)
          .filter((at) => at >= 0)
          .map((at) => `s${at}`),
      ),
    ),
  );
}

describe("layers", () => {
  it("put each step after the last one that it waits for", () => {
    expect(Object.fromEntries(layersOf(DIAMOND))).toEqual({ a: 0, b: 1, c: 1, d: 2, e: 3 });
  });

  it("do not hang on what should not be", () => {
    expect(layersOf([v("a", "b"), v("b", "a"), v("c", "nobody")]).get("c")).toBe(0);
    expect(draw([v("a", "b"), v("b", "a")]).places.size).toBe(2);
    expect(draw([]).layers).toEqual([[]]);
  });
});

describe("a drawing", () => {
  it("goes from left to right, and nothing lies upon another", () => {
    const drawing = draw(DIAMOND);
    for (const { from, to } of drawing.edges) {
      expect(drawing.places.get(from)?.x).toBeLessThan(drawing.places.get(to)?.x ?? 0);
    }
    expect(overlaps(drawing)).toEqual([]);
    expect(drawing.edges).toHaveLength(6);
  });

  it("keeps everything within its bounds", () => {
    const { places, width, height } = draw(many(80));
    for (const { x, y } of places.values()) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(x + SIZE.width).toBeLessThanOrEqual(width);
      expect(y + SIZE.height).toBeLessThanOrEqual(height);
    }
  });

  it("leads a long line around what stands in its way", () => {
    const drawing = draw([v("a"), v("b", "a"), v("c", "b"), v("d", "a", "c")]);
    const long = drawing.edges.find((edge) => edge.from === "a" && edge.to === "d");
    const straight = (drawing.places.get("b")?.y ?? 0) + SIZE.height / 2;
    const heights = [...(long?.path ?? "").matchAll(/H/g)];
    expect(heights).toHaveLength(2);
    expect(long?.path).not.toContain(` ${straight}H`);
  });

  it("does not cross lines that need not cross", () => {
    const drawing = draw([v("a"), v("b"), v("x", "b"), v("y", "a")]);
    const y = (name: string) => drawing.places.get(name)?.y ?? 0;
    expect(Math.sign(y("a") - y("b"))).toBe(Math.sign(y("y") - y("x")));
  });

  it("can be made of hundreds of steps", () => {
    const drawing = draw(many(500));
    expect(drawing.places.size).toBe(500);
    expect(overlaps(drawing)).toEqual([]);
  });
});

describe("steps that are alike", () => {
  const steps = [
    { ...v("start"), kind: "x" },
    ...Array.from({ length: 5 }, (_, i) => [
      { ...v(`fetch${i}`, "start"), kind: "fetch" },
      { ...v(`parse${i}`, `fetch${i}`), kind: "parse" },
    ]).flat(),
    { ...v("end", ...Array.from({ length: 5 }, (_, i) => `parse${i}`)), kind: "x" },
  ];

  it("are one, branch by branch", () => {
    const found = grouped(steps, new Set());
    expect(found.map(({ name, members }) => [name, members.length])).toEqual([
      ["start", 1],
      ["fetch0", 5],
      ["parse0", 5],
      ["end", 1],
    ]);
    expect(found.at(-1)?.after).toEqual(after("parse0"));
  });

  it("are told apart when somebody wants to see them", () => {
    const found = grouped(steps, new Set(["fetch0"]));
    expect(found.filter(({ name }) => name.startsWith("fetch"))).toHaveLength(5);
    expect(found.find(({ name }) => name === "parse0")?.after).toHaveLength(5);
  });

  it("are not one when their neighbours or kinds differ", () => {
    const odd = steps.map((step) => (step.name === "fetch3" ? { ...step, kind: "other" } : step));
    const found = grouped(odd, new Set());
    expect(found.find(({ name }) => name === "fetch0")?.members).not.toContain("fetch3");
    expect(found.find(({ name }) => name === "parse0")?.members).not.toContain("parse3");
    expect(found.some(({ name }) => name === "fetch3")).toBe(true);
  });
});
