import { useQuery } from "@tanstack/react-query";
import { call } from "../../api/client";
import { useNews } from "../../api/live";
import { useT } from "../../i18n";
import { Link } from "../../lib/router";
import { Clock, Skeletons } from "../../ui/basics";
import { EventMark, SubjectLink } from "../../ui/events";

const SHOWN = 10;

/** What happened last. */
export function Feed() {
  const t = useT();
  const news = useNews();
  const before = useQuery({
    queryKey: ["events", "newest", SHOWN],
    queryFn: () => call("get", "/api/v1/events", { query: { newest: true, limit: SHOWN } }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const old = before.data?.items ?? [];
  const first = news[0]?.seq ?? Number.POSITIVE_INFINITY;
  const shown = [...old.filter((event) => event.seq < first), ...news].slice(-SHOWN).reverse();
  if (!before.data && shown.length === 0) return <Skeletons rows={SHOWN} />;
  if (shown.length === 0) return <p className="empty muted">{t("events.none")}</p>;
  return (
    <>
      <ul className="feed">
        {shown.map((event) => (
          <li key={event.seq}>
            <EventMark event={event} />
            <span className="muted small">
              <Clock at={event.at} />
            </span>
            <span className="cut">
              <SubjectLink event={event} /> <span className="strong">{event.kind}</span>{" "}
              <span className="muted">{event.cause}</span>
            </span>
          </li>
        ))}
      </ul>
      <p className="card-body">
        <Link to="/events">{t("overview.allEvents")}</Link>
      </p>
    </>
  );
}
