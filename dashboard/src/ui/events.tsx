import type { EventView } from "../generated/api";
import { shortId } from "../lib/format";
import { Link } from "../lib/router";
import { type Family, Mark } from "./State";

function familyOf(event: EventView): Family {
  if (event.kind.startsWith("task")) return "task";
  return event.kind.startsWith("node") ? "node" : "other";
}

export function EventMark({ event }: { event: EventView }) {
  return <Mark family={familyOf(event)} name={event.to_state ?? ""} />;
}

/** The thing that an event is about, as a link where it has a page. */
export function SubjectLink({ event }: { event: Pick<EventView, "subject"> }) {
  const { subject } = event;
  const short = <span className="mono">{shortId(subject)}</span>;
  if (subject.startsWith("task-"))
    return (
      <Link to={`/tasks/${encodeURIComponent(subject)}`} title={subject}>
        {short}
      </Link>
    );
  if (subject.startsWith("node-"))
    return (
      <Link to={`/nodes/${encodeURIComponent(subject)}`} title={subject}>
        {short}
      </Link>
    );
  return (
    <span title={subject} className="breaks">
      {short}
    </span>
  );
}
