import { describe, expect, it } from "vitest";
import { sightOf } from "../uneven";
import { covers, orderOf, windowOf } from "../window";

describe("the rows in sight", () => {
  it("begin above what is seen and end below it, more so where one scrolls to", () => {
    expect(windowOf(3800, 380, 38, 1000, true)).toEqual({ first: 96, end: 124 });
    expect(windowOf(3800, 380, 38, 1000, false)).toEqual({ first: 86, end: 114 });
  });

  it("stay within the list", () => {
    expect(windowOf(0, 380, 38, 5, true)).toEqual({ first: 0, end: 5 });
    expect(windowOf(38 * 995, 380, 38, 1000, true)).toEqual({ first: 991, end: 1000 });
    expect(windowOf(1e9, 380, 38, 10, true)).toEqual({ first: 10, end: 10 });
  });

  it("are drawn again only when some of them are not drawn", () => {
    const drawn = windowOf(3800, 380, 38, 1000, true);
    expect(covers(drawn, 3800, 380, 38, 1000)).toBe(true);
    expect(covers(drawn, 3800 + 10 * 38, 380, 38, 1000)).toBe(true);
    expect(covers(drawn, 3800 + 30 * 38, 380, 38, 1000)).toBe(false);
    expect(covers(drawn, 0, 380, 38, 1000)).toBe(false);
  });

  it("are drawn again when the list becomes shorter than they are", () => {
    expect(covers({ first: 0, end: 40 }, 0, 380, 38, 20)).toBe(false);
    expect(covers({ first: 0, end: 20 }, 0, 760, 38, 20)).toBe(true);
  });

  it.each([0, 1, 37, 38, 5000, 99_999 * 38])("hold every row that is seen from %i", (top) => {
    const { first, end } = windowOf(top, 700, 38, 100_000, true);
    expect(first).toBeLessThanOrEqual(Math.floor(top / 38));
    expect(end).toBeGreaterThanOrEqual(Math.min(100_000, Math.ceil((top + 700) / 38)));
    expect(end - first).toBeLessThan(45);
  });

  it("stand in order when they rest, and each in its place while they move", () => {
    const drawn = { first: 3, end: 7, places: 5 };
    expect(orderOf({ ...drawn, moving: false })).toEqual([3, 4, 5, 6]);
    expect(orderOf({ ...drawn, moving: true })).toEqual([5, 6, 3, 4]);
  });
});

describe("rows of different heights", () => {
  it("are as high as they were measured, and as usual before", () => {
    expect(sightOf([], 20, 100, 0, 400)).toEqual({ first: 0, end: 50, above: 0, below: 1000 });
    expect(sightOf([420], 20, 100, 0, 400)).toEqual({ first: 0, end: 30, above: 0, below: 1400 });
  });

  it("are drawn around what is seen, and all of them together are one height", () => {
    const known = Array.from({ length: 900 }, (_, row) => 10 + (row % 7) * 5);
    const whole = known.reduce((sum, each) => sum + each, 0) + 100 * 20;
    for (const top of [0, 1, 5000, 12_345, whole - 400]) {
      const { first, end, above, below } = sightOf(known, 20, 1000, top, 400);
      const drawn = Array.from({ length: end - first }, (_, place) => known[first + place] ?? 20);
      const height = drawn.reduce((sum, each) => sum + each, 0);
      expect(above + height + below).toBe(whole);
      expect(above).toBeLessThanOrEqual(top);
      expect(above + height).toBeGreaterThanOrEqual(Math.min(whole, top + 400));
      expect(height).toBeLessThan(400 + 2 * 600 + 2 * 40);
    }
  });

  it("are none where there is nothing", () => {
    expect(sightOf([20, 20], 20, 0, 0, 400)).toEqual({ first: 0, end: 0, above: 0, below: 0 });
  });
});
