"""/api/v1/events: the event log page by page, or live as server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from typing import Final

import msgspec
from starlette.responses import Response

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.bodies import JSON
from crawlfleet.api.http.parameters import EventNumber, PageSize, invalid, is_id
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.api.http.streaming import STREAM, Stream, resumed, while_live
from crawlfleet.control.events.stream import EventFilter, Events, StreamedEvents
from crawlfleet.errors import StoreUnavailable
from crawlfleet.views.events import EventPage, EventView


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str = ""
    """List only events whose kind begins with this text, such as `task.failed` or `node.`."""
    subject: str | None = None
    """List only events about the thing with this id."""
    after: EventNumber | msgspec.UnsetType = msgspec.UNSET
    """List only events with a higher number."""
    limit: PageSize = 100
    """Maximum number of events in a page; a stream has no limit."""
    newest: bool = False
    """List the last events instead of the first; not for a stream."""


async def events(call: Call) -> EventPage | Response:
    query: EventsQuery = call.query
    wanted = EventFilter(kind=query.kind, subject=query.subject, project_id=call.project_id)
    after = None if query.after is msgspec.UNSET else query.after
    if query.subject is not None and not is_id(query.subject):
        raise invalid("subject", "is not an id", "send the id of a task or a node")
    if STREAM in call.headers.get("accept", ""):
        place = ExitStack()
        following = call.service(Events).follow(
            wanted, after=resumed(call.headers, after), name=call.caller.key_id or ""
        )
        news = while_live(place.enter_context(following), call)
        return Stream(_written(news), place)
    if query.newest:
        found = await call.service(Events).newest(wanted, limit=query.limit)
        return EventPage(items=[EventView.of(each) for each in found], next_cursor=None)
    found, cursor = await call.service(Events).find(wanted, after=after or 0, limit=query.limit)
    return EventPage(items=[EventView.of(each) for each in found], next_cursor=cursor)


async def _written(news: AsyncGenerator[StreamedEvents, None]) -> AsyncGenerator[bytes, None]:
    """The news in the format of server-sent events."""
    try:
        async with aclosing(news):
            async for events, position in news:
                if not events:
                    # Tells the reader its place in the log, and is nothing to it otherwise.
                    yield b": nothing new\nid: %d\n\n" % position
                else:
                    yield b"".join(
                        b"id: %d\nevent: %s\ndata: %s\n\n"
                        % (each.seq, each.kind.encode(), msgspec.json.encode(EventView.of(each)))
                        for each in events
                    )
    except StoreUnavailable:
        return  # the reader comes back, and goes on where it was


ROUTES: Final = (
    Route(
        name="list_events",
        method="GET",
        path="/api/v1/events",
        roles=READERS,
        scope=Scope.OWN,
        handler=events,
        client="events_after(7)",
        command="events",
        summary="List events, or follow them live",
        details="`kind` is how the kind begins: `task.failed`, or `node.`. A page that is not "
        'full is not always the last, only `"next_cursor": null` says so. `newest=true` lists '
        "the last ones instead.\n\n"
        "With `Accept: text/event-stream` they come live, as [server-sent "
        "events](../guides/api.md#streams): `id` is the event's number, `event` its kind, "
        "`data` its JSON. A stream begins with what is new, or after the number in `after`, or "
        "in the header `Last-Event-ID`, which a browser's `EventSource` sends when it comes "
        "back. When nothing happens, a comment comes every 15 seconds, with the place in the "
        "log. A stream ends by itself after 15 minutes, and when the master stops: come back "
        "and miss nothing. Readers are served from the store at their own pace, so a slow one "
        "holds up nobody; one that takes nothing for a minute is let go. A number that the log "
        "has not reached, as after a restore, is taken for now. Up to 100 may follow at once, "
        "50 with one key; others are answered 503 (`busy`).",
        query=EventsQuery,
        response=EventPage,
        media_types=(JSON, STREAM),
        example=Example(response=tasks.EVENTS),
    ),
)
