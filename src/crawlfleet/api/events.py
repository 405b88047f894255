"""/api/v1/events: the event log page by page, or live as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from typing import Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from crawlfleet.api import examples
from crawlfleet.api.presenting import present_event
from crawlfleet.api.routing import JSON, READERS, Call, Example, Route
from crawlfleet.api.selecting import EventNumber, PageSize, invalid, is_id
from crawlfleet.control.events import EventFilter, News
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.views import EventPage

STREAM: Final = "text/event-stream"
RESUMES_AFTER: Final = "last-event-id"
SEND_WITHIN_S: Final = 60.0
"""A reader that takes nothing for so long is gone, even if nobody said so."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str = ""
    """Only events whose kind begins like this, such as `task.failed` or `node.`."""
    subject: str | None = None
    """Only events about the thing with this id."""
    after: EventNumber | msgspec.UnsetType = msgspec.UNSET
    """Only events with a higher number."""
    limit: PageSize = 100
    """How many at most; a stream has no end."""
    newest: bool = False
    """The last ones instead of the first; not for a stream."""


async def events(call: Call) -> EventPage | Response:
    query: EventsQuery = call.query
    wanted = EventFilter(kind=query.kind, subject=query.subject)
    after = None if query.after is msgspec.UNSET else query.after
    if query.subject is not None and not is_id(query.subject):
        raise invalid("subject", "is not an id", "send the id of a task or a node")
    if STREAM in call.headers.get("accept", ""):
        place = ExitStack()
        following = call.control.events.follow(wanted, after=_resumed(call, after))
        return _EventStream(place.enter_context(following), place)
    if query.newest:
        found = await call.control.events.newest(wanted, limit=query.limit)
        return EventPage(items=[present_event(each) for each in found], next_cursor=None)
    found, cursor = await call.control.events.find(wanted, after=after or 0, limit=query.limit)
    return EventPage(items=[present_event(each) for each in found], next_cursor=cursor)


def _resumed(call: Call, after: int | None) -> int | None:
    """What a reader that comes back has seen; that is newer than what it once asked for."""
    seen = call.headers.get(RESUMES_AFTER, "")
    if not seen:
        return after
    if not (seen.isascii() and seen.isdigit() and len(seen) < 19):
        raise invalid("Last-Event-ID", "is not the number of an event", "send the last `id`")
    return int(seen)


class _EventStream(StreamingResponse):
    """News for one reader; leaves its place among the followers in any case."""

    def __init__(self, news: AsyncIterator[News], place: ExitStack) -> None:
        super().__init__(_written(news), media_type=STREAM, headers=_HEADERS)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_WITHIN_S):
                await send(message)

        with self._place, suppress(TimeoutError, ClientDisconnect):
            await super().__call__(scope, receive, send_in_time)


async def _written(news: AsyncIterator[News]) -> AsyncIterator[bytes]:
    """The news in the format of server-sent events."""
    try:
        async for events, position in news:
            if not events:
                # Tells the reader its place in the log, and is nothing to it otherwise.
                yield b": nothing new\nid: %d\n\n" % position
            else:
                yield b"".join(
                    b"id: %d\nevent: %s\ndata: %s\n\n"
                    % (each.seq, each.kind.encode(), msgspec.json.encode(present_event(each)))
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
        handler=events,
        summary="List events, or follow them live",
        details="With `Accept: text/event-stream` the events come live as server-sent events: "
        "`id` is the event's number, `event` its kind, `data` its JSON. The stream begins with "
        "what is new, or after the number in `Last-Event-ID` or `after`. A comment comes every "
        "15 seconds when nothing happens. It ends by itself after 15 minutes: come back with "
        "`Last-Event-ID`. Up to 100 may follow at once.",
        query=EventsQuery,
        response=EventPage,
        media_types=(JSON, STREAM),
        example=Example(response=examples.EVENTS),
    ),
)
