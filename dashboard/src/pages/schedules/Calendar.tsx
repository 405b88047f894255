import { useQueries } from "@tanstack/react-query";
import { scheduleNext } from "../../api/queries";
import type { ScheduleView } from "../../generated/api";
import { useT } from "../../i18n";
import { calendar, daysFrom, type Entry, ownZone } from "../../lib/calendar";
import { weekday } from "../../lib/format";
import { Link, useSearch } from "../../lib/router";
import { Card, useMoment } from "../../ui/basics";

const DAYS = 7;
const ASKED = 300;
const MOST_SCHEDULES = 40;
const MOST_TIMES = 3;

function Due({ entry }: { entry: Entry }) {
  const { times } = entry;
  const many = times.length > MOST_TIMES || entry.isCut;
  const from = times[0] ?? "";
  const shown = many ? `${from}–${entry.isCut ? "" : times.at(-1)}` : times.join(", ");
  if (times.length === 0) {
    return (
      <li className="muted">
        … <Link to={`/schedules/${encodeURIComponent(entry.id)}`}>{entry.name}</Link>
      </li>
    );
  }
  return (
    <li>
      <span className="mono small">{shown}</span>
      {many && (
        <span className="muted small">
          {" "}
          {times.length}
          {entry.isCut ? "+" : ""}×
        </span>
      )}
      <Link className="cut" to={`/schedules/${encodeURIComponent(entry.id)}`} title={entry.name}>
        {entry.name}
      </Link>
    </li>
  );
}

/** What is due in the coming days, on the clocks of a zone that one chooses. */
export function Calendar({ schedules }: { schedules: readonly ScheduleView[] }) {
  const t = useT();
  const now = useMoment();
  const [search, change] = useSearch();
  const own = ownZone();
  const zone = search.get("zone") ?? own;
  const active = schedules.filter((each) => each.status === "active").slice(0, MOST_SCHEDULES);
  const found = useQueries({
    queries: active.map((each) => scheduleNext(each.id, each.edition, ASKED)),
  });
  const days = daysFrom(zone, now, DAYS);
  const byDay = calendar(
    active.map((each, index) => {
      const items = found[index]?.data?.items ?? [];
      return {
        id: each.id,
        name: each.name,
        at: items.map((due) => Date.parse(due.starts_at)),
        isCut: items.length === ASKED,
      };
    }),
    zone,
    days,
  );
  const zones = [...new Set([own, "UTC", ...schedules.map((each) => each.time_zone), zone])];
  return (
    <Card
      title={t("schedules.calendar")}
      aside={
        <select
          className="select auto"
          aria-label={t("schedules.zone")}
          value={zone}
          onChange={(event) =>
            change({ zone: event.target.value === own ? null : event.target.value })
          }
        >
          {zones.map((each) => (
            <option key={each} value={each}>
              {each === own ? t("schedules.ownZone", { zone: each }) : each}
            </option>
          ))}
        </select>
      }
    >
      <ol className="calendar">
        {days.map((day, index) => (
          <li key={day} className={index === 0 ? "today" : ""}>
            <h3>
              {index === 0 ? t("schedules.today") : weekday(day)}{" "}
              <span className="muted small">{day.slice(5)}</span>
            </h3>
            <ul>
              {byDay.get(day)?.map((entry) => (
                <Due key={entry.id} entry={entry} />
              ))}
            </ul>
            {byDay.get(day)?.length === 0 && <span className="muted small">–</span>}
          </li>
        ))}
      </ol>
    </Card>
  );
}
