import { describe, expect, it } from "vitest";
import { fill, type Translate } from "../../i18n";
import { zh } from "../../i18n/zh";
import {
  phrasesOf,
  retoldCheck,
  retoldConcern,
  retoldIll,
  retoldReason,
  retoldSummary,
  retoldTrouble,
} from "../retold";

const t: Translate = (key, values) => fill(zh[key], values);
const english = /[a-z]{4,} [a-z]{2,}/;

describe("the summary of an explanation", () => {
  const placement = {
    summary: "",
    feasible: false,
    nodes: 3,
    feasible_nodes: 0,
    rejected: { status: 1, "my-rule": 2 },
    causes: [
      { code: "my-rule", nodes: 2, lasting: true },
      { code: "status", nodes: 1, lasting: false },
    ],
    details: [],
  };
  const why = { task_id: "t", status: "pending" as const, summary: "as the master says" };

  it("is put together in another language, what lasts before what passes", () => {
    expect(retoldSummary({ ...why, placement }, t)).toBe(
      "3 个节点现在都不能运行它：2 个被 my-rule 拒绝，1 个不在线。",
    );
    expect(retoldSummary({ ...why, status: "paused" }, t)).toBe("已暂停；恢复后回到队列。");
    expect(retoldSummary({ ...why, status: "failed" }, t)).toBe("as the master says");
  });

  it("says what to do where nothing passes by itself", () => {
    const causes = [{ code: "task_type", nodes: 3, lasting: true }];
    expect(retoldSummary({ ...why, placement: { ...placement, causes } }, t)).toContain(
      zh["explain.sum.lasting"],
    );
  });

  it("stays the master's where the master gave no causes", () => {
    const { causes: _, ...old } = placement;
    expect(retoldSummary({ ...why, placement: old }, t)).toBe("as the master says");
  });
});

describe("what speaks against a node", () => {
  it.each([
    ["not_online", { status: "draining" }, "排空"],
    ["no_executor", { task_type: "render" }, "render"],
    ["too_small", { name: "memory_mb", needs: 900, has: 10 }, "内存"],
    ["level_missing", { name: "gpu", needs: "2", has: "none" }, "无"],
  ])("%s", (code, values, part) => {
    const filter = code === "too_small" ? "resources" : "capabilities";
    const said = retoldReason({ filter, message: "in english words", code, values }, t);
    expect(said).toContain(part);
    expect(said).not.toMatch(english);
    expect(said).not.toContain("{");
  });

  it("is what is wrong with it, where it is ill", () => {
    const because = [{ code: "memory", values: { value: 0.97, limit: 0.95 } }];
    const values = { health: "unhealthy" };
    expect(
      retoldReason({ filter: "health", message: "m", code: "not_healthy", values, because }, t),
    ).toMatch(/97.*95/);
  });

  it("stays as a plug-in or a newer master says it", () => {
    expect(retoldReason({ filter: "owner", message: "belongs to ann" }, t)).toBe("belongs to ann");
    expect(retoldReason({ filter: "x", message: "new words", code: "new" }, t)).toBe("new words");
  });
});

describe("the health of a node", () => {
  const since = "2026-11-15T09:00:00Z";
  it("is told with its values, or with the words that there are", () => {
    const cpu = { kind: "cpu", health: "unhealthy" as const, reason: "CPU", since };
    expect(retoldIll(phrasesOf([{ ...cpu, value: 0.99, limit: 0.9 }]), t)).toBe(
      "CPU 99%，上限 90%",
    );
    expect(retoldIll(phrasesOf([{ ...cpu, reason: "as before" }]), t)).toBe("as before");
  });
});

describe("what needs attention", () => {
  const subject = { kind: "node", id: "node-1" };
  const concern = { severity: "high" as const, message: "in english words", remedy: "do it" };

  it("names what it is about", () => {
    const found = retoldConcern(
      { ...concern, kind: "node_unhealthy", subject, values: { name: "ann" }, because: [] },
      t,
    );
    expect(found?.message).toBe("ann 不健康");
    expect(found?.remedy).not.toMatch(english);
  });

  it("counts where it is about many", () => {
    const found = retoldConcern({ ...concern, kind: "node_unhealthy", subject, count: 40 }, t);
    expect(found?.message).toContain("40");
  });

  it("says why", () => {
    const found = retoldConcern(
      {
        ...concern,
        kind: "nothing_can_run",
        subject,
        count: 3,
        values: { task_type: "render" },
        because: [{ code: "task_type", values: { n: 4 } }],
      },
      t,
    );
    expect(found?.message).toContain("render");
    expect(found?.message).toContain("4");
  });

  it("is left to the master where the page does not know it", () => {
    expect(retoldConcern({ ...concern, kind: "brand_new", subject }, t)).toBeNull();
    const trouble = { severity: "warning", message: "m", remedy: "r", kind: "brand_new" };
    expect(retoldTrouble(trouble, t)).toBeNull();
  });
});

describe("what was measured", () => {
  const broken = { outcome: "broken" as const, words: "in english words" };

  it.each([
    ["items", { measured: 12, min: 100 }, "条目数：12；预期至少 100"],
    [
      "fields.offer.price.empty",
      { measured: 0.5, max: 0.1 },
      "offer.price 为空的条目：50%；预期至多 10%",
    ],
    ["fields.price.pattern", { measured: 0.4, min: 1 }, "price 符合要求的值：40%；预期至少 100%"],
    ["drift.items", { measured: 3, min: 7, max: 13 }, "条目数（与以往相比）：3；预期 7 至 13"],
    [
      "drift.earlier.items",
      { measured: 3, min: 7, max: 13 },
      "条目数（与 8 至 14 次运行之前相比）：3；预期 7 至 13",
    ],
    [
      "drift.fields.key.distinct",
      { measured: 8, min: 16, max: 48 },
      "key 的不同值（与以往相比）：8；预期 16 至 48",
    ],
  ])("%s", (name, values, said) => {
    expect(retoldCheck({ ...broken, name, ...values }, t)).toBe(said);
  });

  it("stays the master's where the page has no words or no values for it", () => {
    expect(retoldCheck({ ...broken, name: "fields.price.new", measured: 1 }, t)).toBe(broken.words);
    expect(retoldCheck({ ...broken, name: "items" }, t)).toBe(broken.words);
  });
});
