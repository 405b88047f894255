import { describe, expect, it } from "vitest";
import { calendar, dayIn, daysFrom, timeIn } from "../calendar";

const at = (text: string) => Date.parse(text);

describe("an instant", () => {
  it.each([
    ["UTC", "2026-11-16", "23:30"],
    ["Asia/Shanghai", "2026-11-17", "07:30"],
    ["America/New_York", "2026-11-16", "18:30"],
  ])("is on the clocks of %s", (zone, day, time) => {
    const instant = at("2026-11-16T23:30:00Z");
    expect([dayIn(zone, instant), timeIn(zone, instant)]).toEqual([day, time]);
  });
});

describe("the coming days", () => {
  it("follow one another although a day has 25 hours", () => {
    expect(daysFrom("Europe/Berlin", at("2026-10-24T22:30:00Z"), 3)).toEqual([
      "2026-10-25",
      "2026-10-26",
      "2026-10-27",
    ]);
  });
  it("have what is due, in order of time and by the zone", () => {
    const days = daysFrom("Asia/Shanghai", at("2026-11-16T00:00:00Z"), 2);
    const found = calendar(
      [
        { id: "a", name: "late", at: [at("2026-11-16T15:00:00Z")], isCut: false },
        {
          id: "b",
          name: "often",
          at: ["01", "13", "17", "20"].map((hour) => at(`2026-11-16T${hour}:00:00Z`)),
          isCut: true,
        },
        { id: "c", name: "never", at: [at("2027-01-01T00:00:00Z")], isCut: false },
      ],
      "Asia/Shanghai",
      days,
    );
    expect([...found]).toEqual([
      [
        "2026-11-16",
        [
          { id: "b", name: "often", times: ["09:00", "21:00"], isCut: false },
          { id: "a", name: "late", times: ["23:00"], isCut: false },
        ],
      ],
      ["2026-11-17", [{ id: "b", name: "often", times: ["01:00", "04:00"], isCut: true }]],
    ]);
  });
  it("say of what is due too often that it goes on", () => {
    const days = daysFrom("UTC", at("2026-11-16T00:00:00Z"), 3);
    const often = { id: "a", name: "a", at: [at("2026-11-16T23:00:00Z")], isCut: true };
    const found = [...calendar([often], "UTC", days).values()].flat();
    expect(found.map((entry) => [entry.times, entry.isCut])).toEqual([
      [["23:00"], true],
      [[], true],
      [[], true],
    ]);
  });
});
