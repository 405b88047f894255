import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { call } from "../../api/client";
import { useNews } from "../../api/live";
import type { EventView } from "../../generated/api";
import { useT } from "../../i18n";
import { count } from "../../lib/format";
import { matches } from "../../lib/matching";
import { useSearch } from "../../lib/router";
import { orderOf, useWindow } from "../../lib/window";
import { Button, Card, Clock, Empty, Skeletons, Trouble } from "../../ui/basics";
import { EventMark, SubjectLink } from "../../ui/events";
import { SearchFilter, SelectFilter, TextFilter } from "../../ui/filters";

const KINDS = [
  "task.",
  "task.pending",
  "task.assigned",
  "task.processing",
  "task.completed",
  "task.failed",
  "task.timeout",
  "task.cancelled",
  "task.paused",
  "node.",
  "run.",
  "step.",
  "alert.",
  "delivery.",
  "key.",
  "project.",
  "cluster.",
];
const NEWEST = 1000;
/** As high as a row is drawn, in a wide window and in a narrow one. */
const ROW_PX = [37, 62] as const;

function textOf(event: EventView): string {
  return `${event.kind} ${event.subject} ${event.cause} ${JSON.stringify(event.details ?? {})}`;
}

function EventRow({ event }: { event: EventView }) {
  return (
    <>
      <span className="muted small mono c-seq">{event.seq}</span>
      <span className="muted small">
        <Clock at={event.at} />
      </span>
      <span className="row">
        <EventMark event={event} />
        <span className="strong cut">{event.kind}</span>
      </span>
      <span className="cut">
        <SubjectLink event={event} />
      </span>
      <span className="cut muted c-cause" title={event.cause}>
        {event.cause}
      </span>
    </>
  );
}

/** The event log, newest first, as it grows; searchable, and still while one reads. */
export function Stream() {
  const t = useT();
  const [search] = useSearch();
  const kind = search.get("kind") ?? "";
  const subject = search.get("subject") ?? "";
  const text = search.get("q") ?? "";
  const news = useNews();
  const [held, setHeld] = useState<readonly EventView[] | null>(null);
  const before = useQuery({
    queryKey: ["events", kind, subject],
    queryFn: () =>
      call("get", "/api/v1/events", {
        query: { newest: true, limit: NEWEST, kind, ...(subject ? { subject } : {}) },
      }),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnMount: "always",
  });
  const shown = useMemo(() => {
    const old = before.data?.items ?? [];
    const last = old.at(-1)?.seq ?? 0;
    const fresh = (held ?? news).filter(
      (event) =>
        event.seq > last && event.kind.startsWith(kind) && (!subject || event.subject === subject),
    );
    const all = [...old, ...fresh];
    return (text ? all.filter((event) => matches(text, textOf(event))) : all).reverse();
  }, [before.data, news, held, kind, subject, text]);

  const box = useRef<HTMLDivElement>(null);
  const row = ROW_PX[window.innerWidth < 860 ? 1 : 0];
  const drawn = useWindow(box, row, shown.length);
  return (
    <>
      <search className="filters">
        <SearchFilter label={t("events.search")} />
        <SelectFilter name="kind" label={t("events.kind")} values={KINDS} />
        <TextFilter className="mono" name="subject" label={t("events.subject")} />
        <Button
          icon={held ? "play" : "pause"}
          aria-pressed={held !== null}
          onClick={() => setHeld(held ? null : news)}
        >
          {held ? t("events.goOn") : t("events.hold")}
        </Button>
        <span className="muted small" role="status">
          {t("events.count", { n: count(shown.length) })}
        </span>
      </search>
      {before.error ? <Trouble error={before.error} /> : null}
      <Card flush>
        {!before.data && shown.length === 0 ? (
          <Skeletons rows={10} />
        ) : shown.length === 0 ? (
          <Empty icon="events" title={t("events.none")} command="crawlfleet events --follow">
            {t("events.emptyText")}
          </Empty>
        ) : (
          <div
            className="event-list"
            ref={box}
            role="log"
            aria-live="off"
            aria-label={t("nav.events")}
            tabIndex={0}
          >
            <div style={{ height: row * shown.length, position: "relative" }}>
              {orderOf(drawn).map((index) => {
                const event = shown[index];
                return event ? (
                  <div
                    key={event.seq}
                    className="event-row"
                    style={{ height: row, transform: `translateY(${row * index}px)` }}
                  >
                    <EventRow event={event} />
                  </div>
                ) : null;
              })}
            </div>
          </div>
        )}
      </Card>
    </>
  );
}
