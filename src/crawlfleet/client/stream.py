"""Server-sent events from the master, over as many connections as it takes."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec

from crawlfleet.client.transport import Transport
from crawlfleet.errors import MasterUnreachable

T = TypeVar("T")
SILENCE_S: Final = 45.0
"""Three heartbeats: then the connection is dead, even if nobody said so."""
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0


async def stream(
    transport: Transport,
    path: str,
    type: type[T],
    *,
    key: str,
    query: Mapping[str, str],
    patience_s: float,
) -> AsyncGenerator[T, None]:
    """Each thing once, in order, until the master says that it was the last.

    Raises what the master answers, and `MasterUnreachable` when it cannot be reached at first,
    or not for `patience_s` after that.
    """
    loop = asyncio.get_running_loop()
    place, pause_s = "", FIRST_PAUSE_S
    heard_at: float | None = None
    while True:
        headers = {"Accept": "text/event-stream"}
        if place:
            headers["Last-Event-ID"] = place
        try:
            async with aclosing(
                transport.lines(path, key=key, query=query, headers=headers, silence_s=SILENCE_S)
            ) as lines:
                async for line in lines:
                    heard_at, pause_s = loop.time(), FIRST_PAUSE_S
                    name, _, value = line.partition(b": ")
                    if name == b"id":
                        place = value.decode()
                    elif line == b"event: end":
                        return
                    elif name == b"data":
                        yield msgspec.json.decode(value, type=type)
        except MasterUnreachable:
            if heard_at is None or loop.time() - heard_at > patience_s:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
