import { useQuery } from "@tanstack/react-query";
import { call, Problem } from "../../api/client";
import type { DueView } from "../../generated/api";
import { useT } from "../../i18n";
import { dayIn, ownZone, timeIn } from "../../lib/calendar";
import { weekday } from "../../lib/format";
import { type Draft, timing } from "../../lib/scheduleDraft";
import { useSettled } from "../../lib/settled";
import { Ago, Loaded } from "../../ui/basics";

/** `Tue 2026-11-17 02:30:00 CET` with the day of the week in the language of the page. */
function inOwnWords(local: string): string {
  const [, date = "", ...rest] = local.split(" ");
  return [weekday(date), date, ...rest].join(" ");
}

/** Due instants, on the clocks of the schedule and on one's own. */
export function DueList({ items, zone }: { items: readonly DueView[]; zone: string }) {
  const t = useT();
  const own = ownZone();
  if (items.length === 0) return <p className="muted">{t("schedules.nothingDue")}</p>;
  return (
    <ol className="due">
      {items.map((each) => {
        const at = Date.parse(each.due_at);
        return (
          <li key={each.due_at}>
            <span className="mono nowrap">{inOwnWords(each.local)}</span>
            <span className="muted small nowrap">
              <Ago at={each.due_at} />
              {own !== zone && ` · ${dayIn(own, at)} ${timeIn(own, at)} ${own}`}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** When something would be due by a rule that is being written. */
export function Preview({ draft }: { draft: Draft }) {
  const asked = useSettled(JSON.stringify({ ...timing(draft), time_zone: draft.zone }));
  const found = useQuery({
    queryKey: ["schedule-preview", asked],
    queryFn: () =>
      call("get", "/api/v1/schedules:preview", { query: { ...JSON.parse(asked), count: 6 } }),
    retry: false,
    placeholderData: (before) => before,
  });
  const { error } = found;
  if (error instanceof Problem && error.status === 422) {
    return (
      <ul className="stack tight" role="alert">
        {(error.body.errors ?? []).map((each) => (
          <li key={each.field} className="wrong small breaks">
            <b>{each.field}</b> {each.message}; {each.remedy}
          </li>
        ))}
      </ul>
    );
  }
  return (
    <Loaded of={found} rows={4}>
      {({ items, time_zone }) => <DueList items={items} zone={time_zone} />}
    </Loaded>
  );
}
