import { describe, expect, it } from "vitest";
import { arrange, filledIn, hasAddresses, joinAddresses, partAddresses } from "../layout";
import { fieldsOf } from "../schema";

const number = { type: "integer" };
const CRAWL = fieldsOf({
  type: "object",
  properties: {
    url: { type: "string" },
    urls: { type: "array", items: { type: "string" } },
    depth: number,
    limits: { type: "object", properties: { total_s: number, max_pages: number } },
    fetching: { type: "object", properties: { brandNew: number } },
    novel: number,
    group: { type: "object", properties: { deep: { type: "object", properties: { a: number } } } },
  },
});
const paths = (fields: { path: readonly string[] }[]) => fields.map((each) => each.path.join("."));

describe("where fields stand", () => {
  const { first, sections } = arrange(CRAWL, "web_crawl");

  it("begins with what is common, wherever the schema has it", () => {
    expect(paths(first)).toEqual(["urls", "depth", "limits.max_pages", "url", "novel"]);
  });

  it("folds the rest by subject, also what it does not know", () => {
    expect(sections.map((section) => [section.name, paths(section.fields)])).toEqual([
      ["limits", ["limits.total_s"]],
      ["fetching", ["fetching.brandNew"]],
      ["group", ["group.deep.a"]],
    ]);
  });

  it("loses no field and shows none twice", () => {
    const all = [...first, ...sections.flatMap((section) => section.fields)];
    expect(paths(all).sort()).toEqual(
      [
        ...["url", "urls", "depth", "limits.total_s", "limits.max_pages"],
        ...["fetching.brandNew", "novel", "group.deep.a"],
      ].sort(),
    );
  });

  it("keeps to the schema for a type that it does not know", () => {
    const plain = arrange(CRAWL, "stranger");
    expect(paths(plain.first)).toEqual(["url", "urls", "depth", "novel"]);
    expect(plain.sections.map((section) => section.name)).toEqual(["limits", "fetching", "group"]);
  });

  it("counts what is filled in", () => {
    const [limits] = sections;
    expect(limits && filledIn(limits, { limits: { max_pages: 3 } })).toBe(0);
    expect(limits && filledIn(limits, { limits: { total_s: 3 } })).toBe(1);
  });
});

describe("addresses", () => {
  it("are one field", () => {
    expect(hasAddresses(CRAWL)).toBe(true);
    expect(joinAddresses({ url: "a", urls: ["b"], depth: 1 })).toEqual({
      urls: ["a", "b"],
      depth: 1,
    });
    expect(joinAddresses({ depth: 1 })).toEqual({ depth: 1 });
  });

  it("are sent as the one or the several that they are", () => {
    expect(partAddresses({ urls: [" a ", ""], depth: 1 })).toEqual({ url: "a", depth: 1 });
    expect(partAddresses({ urls: ["a", "b"] })).toEqual({ urls: ["a", "b"] });
    expect(partAddresses({ urls: [" "] })).toEqual({});
  });
});
