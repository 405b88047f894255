import { describe, expect, it } from "vitest";
import type { AlertView, QuotaView, WorkflowDocument } from "../../generated/api";
import * as alerts from "../alerts";
import * as quality from "../quality";
import * as quotas from "../quotas";
import { fieldsOf } from "../schema";
import {
  downstream,
  edgeState,
  fitted,
  givenParameters,
  parameterSchema,
  plannedSteps,
  progressOf,
  progressOfGroup,
  worst,
} from "../steps";
import * as usage from "../usage";

const DOCUMENT: WorkflowDocument = {
  name: "shop",
  parameters: {
    shop: { type: "text", description: "Where it is" },
    categories: { type: "list", default: ["lamps"] },
    save: { type: "flag", default: true },
    dry: { type: "flag" },
    pages: { type: "integer", default: 3 },
  },
  steps: {
    fetch: { task_type: "extract", for_each: "parameters.categories" },
    save: { task_type: "python", depends_on: ["fetch"], when: "parameters.save" },
    alarm: {
      task_type: "python",
      depends_on: [{ step: "fetch", on: "failure" }],
      optional: true,
    },
  },
};

describe("steps", () => {
  const [fetch, save, alarm] = plannedSteps(DOCUMENT);

  it("are planned as the document has them", () => {
    expect(fetch).toMatchObject({ spreads: true, asks: false, after: [] });
    expect(save).toMatchObject({ asks: true, after: [{ step: "fetch", on: "success" }] });
    expect(alarm).toMatchObject({ optional: true, after: [{ step: "fetch", on: "failure" }] });
  });

  it.each([
    ["success", "completed", "taken"],
    ["success", "failed", "barred"],
    ["success", "skipped", "barred"],
    ["failure", "failed", "taken"],
    ["failure", "cancelled", "barred"],
    ["always", "skipped", "taken"],
    ["always", "running", "open"],
  ] as const)("an edge on %s after %s is %s", (on, status, state) => {
    expect(edgeState(on, status)).toBe(state);
  });

  it("tell how far they are", () => {
    const one = { ...(fetch as NonNullable<typeof fetch>), count: 40, done: 12, undone: 1 };
    expect(progressOf(one)).toEqual({ of: 40, done: 12, undone: 1 });
    expect(progressOf({ ...one, done: null })).toBeNull();
    expect(progressOf({ ...one, spreads: false })).toBeNull();
    expect(progressOfGroup(["completed", "failed", "running", "skipped"])).toEqual({
      of: 4,
      done: 2,
      undone: 1,
    });
  });

  it("stand together as what most needs to be looked at", () => {
    expect(worst(["completed", "running", "failed"])).toBe("failed");
    expect(worst(["completed", "waiting"])).toBe("waiting");
    expect(worst(["skipped", "completed"])).toBe("completed");
    expect(worst(["planned"])).toBe("planned");
  });

  it("are followed by others", () => {
    expect(downstream([fetch, save, alarm] as never, "fetch")).toEqual(["save", "alarm"]);
    expect(downstream([fetch, save, alarm] as never, "save")).toEqual([]);
  });

  it("have names that fit", () => {
    expect(fitted("short", 10)).toBe("short");
    expect(fitted("a_name_that_is_long", 8)).toBe("a_name_…");
    expect(fitted("抓取商品页面", 6)).toBe("抓取…");
  });
});

describe("the parameters of a workflow", () => {
  const fields = fieldsOf(parameterSchema(DOCUMENT));

  it("are fields of a form", () => {
    expect(fields.map(({ name, kind, required }) => [name, kind, required])).toEqual([
      ["shop", "text", true],
      ["categories", "json", false],
      ["save", "boolean", false],
      ["dry", "boolean", true],
      ["pages", "number", false],
    ]);
  });

  it("are sent where they were filled in", () => {
    expect(givenParameters(DOCUMENT, { shop: "", categories: [], pages: 0 })).toEqual({
      categories: [],
      dry: false,
      pages: 0,
    });
  });
});

const QUOTAS: QuotaView = {
  project_id: "shop",
  over: "queue",
  quotas: [
    { name: "running", use: 30, limit: 40, left: 10 },
    { name: "memory_mb", use: 512, limit: null, left: null },
  ],
  weight: 2,
  share: 0.5,
  due: 0.3,
  nodes: {},
  version: 1,
};

describe("quotas", () => {
  it("are shown in their units, as parts of their limits", () => {
    expect(quotas.amount("memory_mb", 2048)).toBe("2.05 GB");
    expect(quotas.amount("running", 30)).toBe("30");
    expect(quotas.usedShare({ use: 30, limit: 40 })).toBe(0.75);
    expect(quotas.usedShare({ use: 3, limit: 0 })).toBe(1);
    expect(quotas.usedShare({ use: 3, limit: null })).toBeNull();
    expect(quotas.borrowed(QUOTAS)).toBeCloseTo(0.2);
  });

  it("are changed by a form", () => {
    const values = {
      running: "0",
      memory_mb: " ",
      weight: "3",
      over: "reject",
      nodes: "a=b, c=d=e",
    };
    expect(quotas.patchOf(QUOTAS, values)).toEqual({
      running: 0,
      memory_mb: null,
      weight: 3,
      over: "reject",
      nodes: { a: "b", c: "d=e" },
    });
    expect(quotas.labelsOf("pool").wrong).toBe("pool");
    expect(quotas.labelsOf(" ")).toEqual({ labels: null, wrong: "" });
  });

  it("begin with those who hold something", () => {
    const idle = { ...QUOTAS, project_id: "idle", share: 0, quotas: [] };
    expect(quotas.sorted([idle, QUOTAS]).map((each) => each.project_id)).toEqual(["shop", "idle"]);
  });
});

const ALERT = {
  name: "queue-age",
  source: "queue_age_s",
  status: "quiet",
  is_on: true,
  above: 600,
  below: null,
  silences: [],
  subjects: [],
  severity: "warning",
} as unknown as AlertView;

describe("alerts", () => {
  it("say their limits as people do", () => {
    expect(alerts.shownValue("queue_age_s", 600)).toBe("10 m");
    expect(alerts.shownValue("disk_free", 0.1)).toBe("10%");
    expect(alerts.limitOf(ALERT)).toEqual(["above", 600]);
    expect(alerts.limitOf({ above: null, below: 3 })).toEqual(["below", 3]);
  });

  it("begin with what fires, the worst first", () => {
    const firing = (name: string, severity: string) => ({
      ...ALERT,
      name,
      severity,
      status: "firing",
    });
    const off = { ...ALERT, name: "a-off", is_on: false };
    const names = alerts
      .sorted([off, ALERT, firing("z", "critical"), firing("b", "warning")])
      .map((each) => each.name);
    expect(names).toEqual(["z", "b", "queue-age", "a-off"]);
  });

  it("are silenced as a whole, or thing by thing", () => {
    const silence = (subject: string) => ({ subject, until: "", by: "", reason: "" });
    const about = { ...ALERT, subjects: ["node-1", "node-2"] };
    expect(alerts.isSilenced({ ...about, silences: [silence("")] })).toBe(true);
    expect(alerts.isSilenced({ ...about, silences: [silence("node-1")] })).toBe(false);
    const both = [silence("node-1"), silence("node-2")];
    expect(alerts.isSilenced({ ...about, silences: both })).toBe(true);
    expect(alerts.isSilenced({ ...ALERT, silences: [silence("node-1")] })).toBe(false);
  });

  it("are made and changed by a form", () => {
    expect(
      alerts.requestOf({
        name: " blocked ",
        source: "events",
        event: "task.failed",
        direction: "above",
        limit: "10",
        for_s: "0",
        clear_s: "",
        window_s: "900",
        project_id: "shop",
        severity: "critical",
      }),
    ).toEqual({
      name: "blocked",
      source: "events",
      event: "task.failed",
      above: 10,
      for_s: 0,
      window_s: 900,
      project_id: "shop",
      severity: "critical",
      description: "",
    });
    const values = { direction: "below", limit: "3", clear_at: "", severity: "info", for_s: "5" };
    expect(alerts.patchOf(ALERT, values)).toEqual({
      below: 3,
      clear_at: null,
      for_s: 5,
      severity: "info",
      description: "",
    });
  });
});

describe("what was measured", () => {
  const field = (filled: number) => ({ filled }) as never;
  const run = (items: number | null, fields: Record<string, number>) =>
    ({
      items,
      fields: Object.fromEntries(Object.entries(fields).map(([name, n]) => [name, field(n)])),
    }) as never;

  it("tells which share is empty", () => {
    expect(quality.emptyShare(run(4, { price: 3 }), "price")).toBe(0.25);
    expect(quality.emptyShare(run(0, { price: 0 }), "price")).toBeNull();
    expect(quality.emptyShare(run(4, {}), "price")).toBeNull();
  });

  it("begins with the fields that are emptiest now", () => {
    const runs = [run(4, { title: 4, price: 1 }), run(4, { old: 4 })];
    expect(quality.fieldsOf(runs)).toEqual(["price", "title", "old"]);
  });
});

describe("what was used", () => {
  const item = (project_id: string, at: string, pages: number) =>
    ({ project_id, at, pages, storage_bytes: null }) as never;
  const report = {
    step: "day",
    since: "2026-11-01T00:00:00Z",
    until: "2026-11-03T12:00:00Z",
    items: [
      item("a", "2026-11-01T00:00:00Z", 5),
      item("b", "2026-11-01T00:00:00Z", 1),
      item("c", "2026-11-03T00:00:00Z", 2),
      item("a", "2026-11-03T00:00:00Z", 4),
    ],
  } as never;

  it("is a line for those who used most, and one for all others", () => {
    const { at, lines, others } = usage.usageLines(report, "pages", 1);
    expect(at).toHaveLength(3);
    expect(lines).toEqual([{ project: "a", values: [5, 0, 4] }]);
    expect(others?.values).toEqual([1, 0, 2]);
    expect(usage.usageLines(report, "pages", 5).others).toBeNull();
  });

  it("is told in its unit", () => {
    expect(usage.told("bytes", 2_000_000)).toBe("2 MB");
    expect(usage.told("cpu_s", 90)).toBe("1 m 30 s");
  });
});
