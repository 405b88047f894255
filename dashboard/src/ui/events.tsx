import type { EventView } from "../generated/api";
import { shortId } from "../lib/format";
import { Link } from "../lib/router";
import { type Family, Mark } from "./State";

const FAMILIES: readonly Family[] = ["task", "node", "run", "step", "delivery", "alert"];
/** What has a page of its own, by how its ids begin. */
const PAGES: Record<string, string> = {
  "task-": "/tasks/",
  "node-": "/nodes/",
  "run-": "/runs/",
  "flow-": "/workflows/",
  "hook-": "/webhooks/",
  "sched-": "/schedules/",
};

function familyOf(event: EventView): Family {
  return FAMILIES.find((family) => event.kind.startsWith(`${family}.`)) ?? "other";
}

export function EventMark({ event }: { event: EventView }) {
  const state = event.to_state ?? (event.kind.startsWith("step.") ? event.kind.slice(5) : "");
  return <Mark family={familyOf(event)} name={state} />;
}

/** The thing that an event is about, as a link where it has a page. */
export function SubjectLink({ event }: { event: Pick<EventView, "subject"> }) {
  const { subject } = event;
  const short = <span className="mono">{shortId(subject)}</span>;
  const page = Object.entries(PAGES).find(([prefix]) => subject.startsWith(prefix))?.[1];
  if (page)
    return (
      <Link to={`${page}${encodeURIComponent(subject)}`} title={subject}>
        {short}
      </Link>
    );
  return (
    <span title={subject} className="breaks">
      {short}
    </span>
  );
}
