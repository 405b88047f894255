import { describe, expect, it } from "vitest";
import { address } from "../../api/client";
import { matchPath, withSearch } from "../router";
import { selectionOf, statesOf, taskFilter, toggled } from "../taskFilter";

describe("paths", () => {
  it("finds the values in a path", () => {
    expect(matchPath("/tasks/{id}", "/tasks/task-1")).toEqual({ id: "task-1" });
    expect(matchPath("/tasks/{id}", "/tasks/a%2Fb%20c")).toEqual({ id: "a/b c" });
    expect(matchPath("/tasks/{id}", "/tasks")).toBeNull();
    expect(matchPath("/tasks/{id}", "/nodes/x")).toBeNull();
    expect(matchPath("/", "/")).toEqual({});
  });

  it("does not stumble over broken percent signs", () => {
    expect(matchPath("/tasks/{id}", "/tasks/100%")).toEqual({ id: "100%" });
  });

  it("keeps ids from leaving their place in an address of the API", () => {
    expect(address("/api/v1/tasks/{id}:cancel", { id: "../keys?x#y" })).toBe(
      "/api/v1/tasks/..%2Fkeys%3Fx%23y:cancel",
    );
    expect(address("/t", {}, { a: 1, b: undefined, c: "", d: "x&y", e: false })).toBe(
      "/t?a=1&d=x%26y&e=false",
    );
  });
});

describe("what a view shows is in the address", () => {
  it("changes some values and leaves the others, in one order", () => {
    expect(withSearch("?b=2&a=1", { c: "3", b: null })).toBe("?a=1&c=3");
    expect(withSearch("?a=1", { a: "" })).toBe("");
    expect(withSearch("", { q: "a b&c" })).toBe("?q=a+b%26c");
  });

  it("reads a filter of tasks, and leaves out what is no state", () => {
    const search = new URLSearchParams("status=failed,pending,nonsense&project=shop&dead=true&x=1");
    expect(statesOf(search)).toEqual(["pending", "failed"]);
    expect(taskFilter(search)).toEqual({
      status: "pending,failed",
      project_id: "shop",
      dead: true,
    });
    expect(taskFilter(new URLSearchParams())).toEqual({});
  });

  it("gives an order the same filter as the list", () => {
    expect(selectionOf({ status: "pending,failed", project_id: "shop" })).toEqual({
      status: ["pending", "failed"],
      project_id: "shop",
    });
  });

  it("toggles a state", () => {
    expect(toggled(new URLSearchParams(), "failed")).toBe("failed");
    expect(toggled(new URLSearchParams("status=failed"), "pending")).toBe("pending,failed");
    expect(toggled(new URLSearchParams("status=failed"), "failed")).toBe("");
  });
});
