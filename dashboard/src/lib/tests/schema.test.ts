import { describe, expect, it } from "vitest";
import { columnsOf, textOf } from "../items";
import { changed, fieldsOf, filled } from "../schema";

const SCHEMA = {
  $ref: "#/$defs/Crawl",
  $defs: {
    Crawl: {
      type: "object",
      required: ["url"],
      properties: {
        url: { type: "string" },
        depth: { anyOf: [{ type: "integer", minimum: 0 }, { type: "null" }], default: null },
        urls: { type: "array", items: { type: "string", examples: ["a", "b"] }, default: [] },
        dedup: { enum: ["exact", "bloom"], default: "exact" },
        scope: { $ref: "#/$defs/Scope", default: {}, description: "Where it may go." },
        headers: { type: "object", additionalProperties: { type: "string" } },
        selectors: { type: "object" },
        sinks: { type: "array", items: { $ref: "#/$defs/Scope" } },
        html: { type: "string", maxLength: 2_000_000 },
        strategy: { type: "string", examples: ["random", "weighted"] },
        any: {},
        either: { anyOf: [{ type: "string" }, { type: "integer" }] },
      },
    },
    Scope: { type: "object", properties: { sitemaps: { type: "boolean", default: false } } },
  },
};

describe("a form from a schema", () => {
  const fields = fieldsOf(SCHEMA);

  it("knows how to show each field", () => {
    expect(fields.map((field) => `${field.name} ${field.kind}`)).toEqual([
      "url text",
      "depth number",
      "urls list",
      "dedup choice",
      "scope group",
      "headers map",
      "selectors map",
      "sinks rows",
      "html longText",
      "strategy text",
      "any json",
      "either json",
    ]);
    expect(fields[0]?.required).toBe(true);
    expect(fields[1]).toMatchObject({ min: 0, whole: true, required: false });
    expect(fields[3]?.options).toEqual(["exact", "bloom"]);
    expect(fields[4]).toMatchObject({ hint: "Where it may go." });
    expect(fields[4]?.fields.map((field) => field.name)).toEqual(["sitemaps"]);
  });

  it("knows what to show in an empty field", () => {
    const by = Object.fromEntries(fields.map((field) => [field.name, field]));
    expect(by.urls?.example).toBe("a\nb");
    expect(by.strategy).toMatchObject({
      example: "random",
      suggestions: ["random", "weighted"],
    });
    expect(by.headers?.mapOf).toBe("text");
    expect(by.selectors?.mapOf).toBe("selectors");
    expect(by.sinks?.fields.map((field) => field.path.join("."))).toEqual(["sinks.sitemaps"]);
  });

  it("ends with a schema that contains itself", () => {
    const loop = {
      $ref: "#/$defs/A",
      $defs: { A: { type: "object", properties: { a: { $ref: "#/$defs/A" } } } },
    };
    let [field] = fieldsOf(loop);
    for (let depth = 0; depth < 10 && field?.kind === "group"; depth += 1) [field] = field.fields;
    expect(field?.kind).toBe("json");
  });

  it("sends only what was filled in", () => {
    expect(
      filled({
        a: "",
        b: 0,
        c: false,
        d: [],
        e: ["", "x"],
        f: { g: "" },
        h: { i: { j: 1 } },
        k: null,
        l: [{ m: "", n: 1 }, {}],
        o: [{ p: "" }],
      }),
    ).toEqual({ b: 0, c: false, e: ["x"], h: { i: { j: 1 } }, l: [{ n: 1 }] });
  });

  it("changes one value and leaves the others", () => {
    const before = { scope: { sitemaps: true }, url: "x" };
    const after = changed(before, ["scope", "within"], "host");
    expect(after).toEqual({ scope: { sitemaps: true, within: "host" }, url: "x" });
    expect(before.scope).toEqual({ sitemaps: true });
    expect(changed({}, ["a", "b"], 1)).toEqual({ a: { b: 1 } });
  });
});

describe("items", () => {
  it("have the columns of all of them", () => {
    expect(columnsOf([{ fields: { a: 1 } }, { fields: { b: 2, a: 3 } }])).toEqual(["a", "b"]);
  });
  it("are text, whatever they are", () => {
    expect(textOf("<img src=x onerror=alert(1)>")).toBe("<img src=x onerror=alert(1)>");
    expect(textOf({ a: ["b"] })).toBe('{"a":["b"]}');
    expect(textOf(null)).toBe("");
    expect(textOf("x".repeat(1000))).toHaveLength(401);
  });
});
