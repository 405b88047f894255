import { describe, expect, it } from "vitest";
import type { ScheduleView } from "../../generated/api";
import { draftOf, newDraft, rule, timing } from "../scheduleDraft";

const KEPT = {
  name: "pulse",
  description: "",
  cron: null,
  every_s: 5400,
  time_zone: "UTC",
  coalesce: false,
  misfire_grace_s: 60,
  max_instances: 2,
  overlap: "queue",
  jitter_s: 5,
} as unknown as ScheduleView;

describe("a schedule that is written", () => {
  it("is sent with one of cron and interval", () => {
    const draft = { ...newDraft("Europe/Berlin"), cron: " 0 4 * * * " };
    expect(rule(draft)).toMatchObject({ cron: "0 4 * * *", every_s: null });
    expect(timing({ ...draft, kind: "every", every: "2", unit: "3600" })).toEqual({
      every_s: 7200,
    });
  });
  it("comes back as it was kept", () => {
    const draft = draftOf(KEPT);
    expect([draft.every, draft.unit]).toEqual(["90", "60"]);
    expect(rule(draft)).toEqual({
      cron: null,
      every_s: 5400,
      time_zone: "UTC",
      description: "",
      coalesce: false,
      misfire_grace_s: 60,
      max_instances: 2,
      overlap: "queue",
      jitter_s: 5,
    });
  });
});
