"""Answers that are written in parts, among them server-sent events, for one reader.

The generator that writes an answer is closed when its reader disconnects, and closes its own
sources: a generator that is left to the garbage collector may be closed by two threads at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing, suppress
from typing import Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from crawlfleet.api.http.parameters import invalid
from crawlfleet.api.http.routing import Call
from crawlfleet.control.access.keys import Keys

T = TypeVar("T")

STREAM: Final = "text/event-stream"
RESUMES_AFTER: Final = "last-event-id"
SEND_WITHIN_S: Final = 60.0
"""A reader that accepts no data for this time is considered gone."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Streamed(StreamingResponse):
    """Sends the parts of an answer, and closes their generator when the reader disconnects."""

    def __init__(
        self, written: AsyncGenerator[bytes, None], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(written, media_type=media_type, headers=headers)
        self._written = written

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._written):
            await super().__call__(scope, receive, send)


class Stream(Streamed):
    """Sends the parts of an answer; `place` is closed when the reader disconnects."""

    def __init__(self, written: AsyncGenerator[bytes, None], place: ExitStack) -> None:
        super().__init__(written, media_type=STREAM, headers=_HEADERS)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_WITHIN_S):
                await send(message)

        with self._place, suppress(TimeoutError, ClientDisconnect):
            await super().__call__(scope, receive, send_in_time)


async def while_live(news: AsyncGenerator[T, None], call: Call) -> AsyncGenerator[T, None]:
    """The news, until the key is revoked or expires: a reader is not let in once for ever."""
    async with aclosing(news):
        async for each in news:
            if not call.service(Keys).is_live(call.caller):
                return
            yield each


def resumed(headers: Mapping[str, str], after: int | None) -> int | None:
    """Return the number of the last event that a reader has seen: its `Last-Event-ID`, or else
    `after`."""
    seen = headers.get(RESUMES_AFTER, "")
    if not seen:
        return after
    if not (seen.isascii() and seen.isdigit() and len(seen) < 19):
        raise invalid("Last-Event-ID", "is not the number of an event", "send the last `id`")
    return int(seen)
