import { describe, expect, it } from "vitest";
import { MOST_BYTES, suggestedName, unfit } from "../archive";
import { isolationOf } from "../isolation";

describe("an archive", () => {
  it.each([
    ["quotes.zip", "quotes"],
    ["My project (1).ZIP", "My-project-1-"],
    ["shop_tools-1.2.0-py3-none-any.whl", "shop_tools"],
    ["_x.zip", "x"],
  ])("%s suggests %s", (file, name) => expect(suggestedName(file)).toBe(name));
  it.each([
    [{ name: "a.zip", size: 10 }, null],
    [{ name: "a.whl", size: MOST_BYTES }, null],
    [{ name: "a.zip", size: MOST_BYTES + 1 }, "size"],
    [{ name: "a.tar.gz", size: 10 }, "kind"],
  ])("%o fits or not", (file, wrong) => expect(unfit(file)).toBe(wrong));
});

describe("isolation", () => {
  it("is read from what a node says of itself", () => {
    expect(
      isolationOf({
        isolation: 3,
        isolation_layers: ["rlimits", "seccomp"],
        isolation_missing: ["cgroup_v2: no group of its own: see delegate"],
        bundles: true,
      }),
    ).toEqual({
      level: "L3",
      layers: ["rlimits", "seccomp"],
      missing: [{ layer: "cgroup_v2", why: "no group of its own: see delegate" }],
    });
  });
  it("is absent where there is no sandbox", () => {
    expect(isolationOf({ bundles: true }).level).toBeNull();
  });
});
