import { describe, expect, it } from "vitest";
import { alone, stepOf, withGaps } from "../gaps";

describe("gaps", () => {
  it("know the usual step", () => {
    expect(stepOf([0, 5, 10, 90, 95])).toBe(5);
    expect(stepOf([7])).toBe(0);
  });

  it("end the line where points are missing", () => {
    const drawn = withGaps([0, 5, 10, 90, 95], [[1, 2, 3, 4, 5]]);
    expect(drawn.at).toEqual([0, 5, 10, 15, 90, 95]);
    expect(drawn.lines).toEqual([[1, 2, 3, null, 4, 5]]);
    expect(drawn.from).toEqual([0, 1, 2, null, 3, 4]);
  });

  it("go on over a short lack of values, not over a long one", () => {
    const at = [0, 1, 2, 3, 4, 5, 6, 7];
    const { lines } = withGaps(at, [[1, null, 2, null, null, null, null, 3]]);
    expect(lines[0]).toEqual([1, undefined, 2, null, null, null, null, 3]);
    expect(alone(lines[0] ?? [])).toEqual([7]);
  });

  it("leave room for what is still to come", () => {
    expect(withGaps([], [[]], 1000)).toEqual({
      at: [700, 1000],
      lines: [[null, null]],
      from: [null, null],
    });
    expect(withGaps([1000], [[4]]).at).toEqual([700, 1000]);
  });
});
