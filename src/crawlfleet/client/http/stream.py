"""Server-sent events from the master, over as many connections as it takes."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec

from crawlfleet.client.http.retries import is_passing, pause_after
from crawlfleet.client.http.transport import Transport
from crawlfleet.errors import CrawlfleetError

T = TypeVar("T")
SILENCE_S: Final = 45.0
"""Three heartbeats: after so long without one the connection is dead, even if nothing reports
that.
"""
FIRST_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 5.0


async def stream(
    transport: Transport,
    path: str,
    type: type[T],
    *,
    key: str,
    query: Mapping[str, str],
    first_patience_s: float,
    patience_s: float,
) -> AsyncGenerator[T, None]:
    """Yield each item once, in order, until the master marks the last one. Raises the errors that
    the master answers. A master that cannot be reached, or is busy, is called again for
    `first_patience_s` at first, and for `patience_s` once it has answered.
    """
    loop = asyncio.get_running_loop()
    place, pause_s = "", FIRST_PAUSE_S
    until = loop.time() + first_patience_s
    while True:
        headers = {"Accept": "text/event-stream"}
        if place:
            headers["Last-Event-ID"] = place
        wait_s = pause_s
        try:
            async with aclosing(
                transport.lines(path, key=key, query=query, headers=headers, silence_s=SILENCE_S)
            ) as lines:
                async for line in lines:
                    until, pause_s = loop.time() + patience_s, FIRST_PAUSE_S
                    name, _, value = line.partition(b": ")
                    if name == b"id":
                        place = value.decode()
                    elif line == b"event: end":
                        return
                    elif name == b"data":
                        yield msgspec.json.decode(value, type=type)
        except CrawlfleetError as error:
            wait_s = pause_after(error, pause_s)
            if not is_passing(error) or loop.time() + wait_s > until:
                raise
        await asyncio.sleep(wait_s)
        pause_s = min(pause_s * 2, MAX_PAUSE_S)
