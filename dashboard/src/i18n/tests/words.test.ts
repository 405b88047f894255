import { describe, expect, it } from "vitest";
import { fill } from "..";
import { en } from "../en";
import { zh } from "../zh";

const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);

describe("words", () => {
  it("are put together", () => {
    expect(fill("{n} node|{n} nodes", { n: 1 })).toBe("1 node");
    expect(fill("{n} node|{n} nodes", { n: "2" })).toBe("2 nodes");
    expect(fill("{a} and {b}", { a: "<b>" })).toBe("<b> and {b}");
  });

  it.each(Object.keys(en) as (keyof typeof en)[])("%s says the same in Chinese", (key) => {
    expect(zh[key].trim()).not.toBe("");
    expect([...new Set(names(zh[key]))].sort()).toEqual([...new Set(names(en[key]))].sort());
  });
});
