import { geoNaturalEarth1 } from "d3-geo";
import { describe, expect, it } from "vitest";
import { filtersOf, funnel } from "../explain";
import { marked } from "../matching";
import { groupByPlace, laidOut, naturalEarth } from "../places";
import { columns, errorClasses } from "../series";
import { asCli, asCurl, asPython, quoted, requestOf } from "../snippets";
import { judge } from "../verdict";

describe("the verdict", () => {
  const well = { nodes: { online: 2 }, ready: 3, high: 0, medium: 0 };
  it.each([
    ["healthy", well],
    ["empty", { ...well, nodes: {} }],
    ["stopped", { ...well, nodes: { offline: 2 }, high: 1 }],
    ["urgent", { ...well, high: 1, medium: 4 }],
    ["uneasy", { ...well, medium: 1 }],
    ["uneasy", { ...well, nodes: { offline: 2 }, ready: 0 }],
  ])("is %s", (verdict, vital) => expect(judge(vital)).toBe(verdict));
});

describe("the explanation", () => {
  const placement = {
    summary: "",
    feasible: false,
    nodes: 7,
    feasible_nodes: 0,
    rejected: { status: 3, capabilities: 4 },
    details: [{ node_id: "n", name: "n", reasons: [{ filter: "my-rule", message: "no" }] }],
  };
  it("has all filters in the order in which they are asked, those of plug-ins too", () => {
    expect(filtersOf(placement).slice(-3)).toEqual(["reservation", "my-rule", "resources"]);
  });
  it("counts down to what is left", () => {
    const steps = funnel(placement);
    expect(steps[0]).toEqual({ filter: "status", rejected: 3, left: 4 });
    expect(steps.at(-1)).toEqual({ filter: "resources", rejected: 0, left: 0 });
  });
});

describe("the map", () => {
  const at = (latitude: number, longitude: number) => ({ latitude, longitude });
  const node = (
    region: string | null,
    status: string,
    health = "healthy",
    location = at(0, 0),
  ) => ({
    region,
    status,
    health,
    location: region === "atlantis" ? null : location,
  });
  it("groups by region, and shows the worst of each", () => {
    const { groups, elsewhere } = groupByPlace([
      node("eu", "online"),
      node("eu", "unresponsive"),
      node("us", "online", "degraded"),
      node("asia", "offline"),
      node("atlantis", "online"),
      node(null, "online"),
    ] as never);
    expect(elsewhere).toBe(2);
    expect(groups.map((each) => [each.region, each.nodes, each.online, each.tone])).toEqual([
      ["eu", 2, 1, "bad"],
      ["us", 1, 1, "warn"],
      ["asia", 1, 0, "quiet"],
    ]);
  });
  it("lets no name cover another", () => {
    const { groups } = groupByPlace(
      ["one", "two", "three"].map((region) => node(region, "online")) as never,
    );
    expect(laidOut(groups, () => [100, 100]).map((dot) => dot.label)).toEqual([
      "below",
      "above",
      "none",
    ]);
  });
});

describe("series", () => {
  const point = (finished: number, errors: Record<string, number>) => ({
    at: "2026-11-15T12:00:00Z",
    tasks: { pending: 3 },
    finished,
    failed: 0,
    errors,
    pages: 50,
    queue_age_s: null,
  });
  const series = {
    step_s: 5,
    points: [point(10, { network: 1 }), point(0, { lost: 3, network: 1 })],
  };
  it("are drawn per second", () => {
    const drawn = columns(series);
    expect(drawn.finished).toEqual([2, 0]);
    expect(drawn.pages).toEqual([10, 10]);
    expect(drawn.states.pending).toEqual([3, 3]);
    expect(drawn.states.paused).toEqual([0, 0]);
    expect(drawn.age).toEqual([0, 0]);
  });
  it("sum up errors, most first", () => {
    expect(errorClasses(series)).toEqual([
      ["lost", 3],
      ["network", 2],
    ]);
  });
});

describe("the same from elsewhere", () => {
  const request = { task_type: "http_fetch", parameters: { url: "https://a.b/?x='y'", n: 1 } };
  it("is safe in a shell", () => {
    expect(quoted("plain/path")).toBe("plain/path");
    expect(quoted("a'b; rm -rf $HOME")).toBe("'a'\\''b; rm -rf $HOME'");
    expect(asCli({ ...request, priority: 7 }, "http://m:8000")).toBe(
      "crawlfleet submit http_fetch -p 'url=https://a.b/?x='\\''y'\\''' -p n=1 --priority 7 --url http://m:8000",
    );
    expect(asCurl(request, "http://m:8000")).toContain("'\\''y'\\''");
  });
  it("quotes text that would be read as JSON", () => {
    expect(asCli({ task_type: "t", parameters: { a: "123", b: true } }, "http://m")).toContain(
      "-p 'a=\"123\"' -p b=true",
    );
  });
  it("says where a task may run", () => {
    const task = {
      id: "task-1",
      task_type: "sleep",
      parameters: { seconds: 1 },
      status: "pending" as const,
      priority: 5,
      project_id: "default",
      cluster_id: "eu",
      max_retries: 0,
      retry_count: 0,
      timeout: 30,
      capabilities: { javascript: true, gpu: 2 },
      min_resources: { memory_mb: 500 },
      categories: [],
      target_region: "eu-west",
      schedule_strategy: "geo_location",
      dedup_key: "once",
      created_at: "",
      updated_at: "",
    };
    expect(asCli(requestOf(task), "http://m")).toBe(
      "crawlfleet submit sleep -p seconds=1 --cluster eu --timeout 30 --max-retries 0 " +
        "--strategy geo_location --region eu-west --capability javascript=true --capability gpu=2 " +
        "--min memory_mb=500 --url http://m",
    );
  });
  it("goes by a file where there is no option", () => {
    expect(asCli({ task_type: "t", categories: ["x"] }, "http://m")).toBe(
      `echo '{"task_type":"t","categories":["x"]}' | crawlfleet submit --file - --url http://m`,
    );
  });
  it("is Python", () => {
    const text = asPython(
      { task_type: "t", parameters: { a: [true, null, "x"] }, priority: 7 },
      "u",
    );
    expect(text).toContain('fleet.submit("t", {"a": [True, None, "x"]}, priority=7)');
  });
});

describe("what was searched for", () => {
  it.each([
    ["a line", "", [["a line", false]]],
    [
      "Line 1, line 2",
      "LINE",
      [
        ["Line", true],
        [" 1, ", false],
        ["line", true],
        [" 2", false],
      ],
    ],
    ["none", "x", [["none", false]]],
    [
      "aaa",
      "aa",
      [
        ["aa", true],
        ["a", false],
      ],
    ],
  ])("in %s is marked", (text, sought, parts) => expect(marked(text, sought)).toEqual(parts));
});

describe("the map", () => {
  it("has places where the library that drew its land has them", () => {
    const theirs = geoNaturalEarth1().scale(170).translate([480, 250]);
    const ours = naturalEarth(170, [480, 250]);
    for (const latitude of [-89, -55, -23.5, 0, 1, 48, 71, 90]) {
      for (const longitude of [-179, -74, 0, 8.7, 116, 179]) {
        const [x, y] = theirs([longitude, latitude]) ?? [0, 0];
        const [left, top] = ours({ longitude, latitude });
        expect(left).toBeCloseTo(x, 6);
        expect(top).toBeCloseTo(y, 6);
      }
    }
  });
});
