import { describe, expect, it, vi } from "vitest";
import type { EventView } from "../../generated/api";
import { appended, fold } from "../fold";
import { merged, patched, type TaskRow, within } from "../rows";
import { MessageReader } from "../sse";
import { throttle } from "../throttle";
import { timeline } from "../timeline";

function event(seq: number, subject: string, to: string, more: Partial<EventView> = {}): EventView {
  const at = `2026-11-15T12:00:0${seq % 10}Z`;
  return { seq, kind: `task.${to}`, subject, at, cause: "because", to_state: to, ...more };
}

describe("reading the stream", () => {
  const text = 'id: 7\nevent: task.completed\ndata: {"a":1}\n\n: nothing new\nid: 9\n\n';

  it("gives the same messages wherever the pieces end", () => {
    for (let cut = 0; cut <= text.length; cut += 1) {
      const reader = new MessageReader();
      const found = [...reader.push(text.slice(0, cut)), ...reader.push(text.slice(cut))];
      expect(found).toEqual([{ id: "7", event: "task.completed", data: '{"a":1}' }]);
      expect(reader.lastId).toBe("9");
    }
  });

  it("joins lines of data, and takes line ends of any kind", () => {
    const reader = new MessageReader();
    expect(reader.push("data: a\r\ndata: b\r\n\r\n")).toEqual([
      { id: "", event: "message", data: "a\nb" },
    ]);
  });
});

describe("folding news", () => {
  it("keeps the newest state of each task, and the node it was last said to be on", () => {
    const { tasks, born } = fold([
      event(1, "t1", "pending"),
      event(2, "t1", "assigned", { from_state: "pending", details: { node_id: "n1" } }),
      event(3, "t1", "completed", { from_state: "assigned" }),
      event(4, "t2", "pending"),
    ]);
    expect(born).toBe(2);
    expect(tasks.get("t1")).toEqual({
      status: "completed",
      node: "n1",
      at: "2026-11-15T12:00:03Z",
    });
    expect(tasks.get("t2")?.status).toBe("pending");
  });

  it("tells what else changed by its family", () => {
    const { tasks, others } = fold([
      event(1, "n1", "online", { kind: "node.online" }),
      event(2, "k1", "", { kind: "key.made" }),
    ]);
    expect(tasks.size).toBe(0);
    expect([...others]).toEqual(["node", "key"]);
  });

  it("keeps only the last ones", () => {
    expect(appended([1, 2, 3], [4], 3)).toEqual([2, 3, 4]);
    expect(appended([1], [2], 3)).toEqual([1, 2]);
    expect(appended([1, 2], [3, 4, 5, 6], 3)).toEqual([4, 5, 6]);
  });
});

describe("rows", () => {
  const row = (id: string, status = "pending"): TaskRow => ({
    id,
    status,
    label: "",
    type: "",
    priority: 5,
    node: "",
    tries: 0,
    project: "",
    at: "",
  });

  it("are the same array when nothing of them changed", () => {
    const rows = [row("b"), row("a")];
    expect(patched(rows, new Map([["z", { status: "failed", at: "" }]]))).toBe(rows);
    const next = patched(rows, new Map([["a", { status: "assigned", node: "n1", at: "" }]]));
    expect(next[0]).toBe(rows[0]);
    expect(next[1]).toMatchObject({ status: "assigned", node: "n1" });
  });

  it("leave a list whose filter they do not fit any more", () => {
    const rows = [row("b", "failed"), row("a")];
    expect(within(rows, [])).toBe(rows);
    expect(within(rows, ["pending", "failed"])).toBe(rows);
    expect(within(rows, ["pending"]).map((each) => each.id)).toEqual(["a"]);
  });

  it("take in older pages at the end, and the newest at the begin", () => {
    const known = [row("d"), row("c"), row("b")];
    expect(merged([row("a")], known).map((each) => each.id)).toEqual(["d", "c", "b", "a"]);
    const head = [row("f"), row("d", "failed"), row("c")];
    expect(merged(head, known).map((each) => `${each.id} ${each.status}`)).toEqual([
      "f pending",
      "d failed",
      "c pending",
      "b pending",
    ]);
  });

  it("are each there once, newest first, with the newer state", () => {
    const rows = merged([row("d"), row("c", "failed")], [row("c"), row("b")]);
    expect(rows.map((each) => `${each.id} ${each.status}`)).toEqual([
      "d pending",
      "c failed",
      "b pending",
    ]);
  });
});

describe("a timeline", () => {
  it("numbers attempts, and says how long each step took", () => {
    const steps = timeline(
      [
        event(1, "t", "pending"),
        event(3, "t", "assigned", { details: { execution_id: "e1", node_id: "n1" } }),
      ],
      [{ id: "e1" }],
    );
    expect(steps.map(({ attempt, node, afterS }) => [attempt, node, afterS])).toEqual([
      [null, null, 0],
      [1, "n1", 2],
    ]);
  });
});

describe("a throttle", () => {
  it("acts at once, then once for all that came meanwhile", () => {
    vi.useFakeTimers();
    const act = vi.fn();
    const call = throttle(act, 1000);
    for (let each = 0; each < 50; each += 1) call();
    expect(act).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1000);
    expect(act).toHaveBeenCalledTimes(2);
    vi.advanceTimersByTime(5000);
    expect(act).toHaveBeenCalledTimes(2);
    call();
    expect(act).toHaveBeenCalledTimes(3);
    vi.useRealTimers();
  });
});
