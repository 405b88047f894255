"""Connections kept for the next request to the same server, within bounds."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final

from crawlfleet.crawl.fetch.http1 import Http1Connection

KEEP_S: Final = 30.0
"""Seconds for which an idle connection is kept; many servers close theirs after less than a
minute."""


class _Lane:
    """Everything about one server."""

    __slots__ = ("idle", "taken", "waiting")

    def __init__(self) -> None:
        self.idle: list[Http1Connection] = []
        self.taken = 0
        """Slots in use: connections that are being made or have a request under way."""
        self.waiting: deque[asyncio.Future[Http1Connection | None]] = deque()


class Pool:
    """Lends slots, each with an idle connection or the right to make one.

    Every `take` is followed by exactly one `give`. When all slots are taken, callers wait in line
    and servers take turns. Idle connections give way to new ones when there are too many.
    """

    def __init__(self, *, size: int, per_host: int, keep_s: float = KEEP_S) -> None:
        self._size, self._per_host, self._keep_s = size, per_host, keep_s
        self._lanes: dict[Hashable, _Lane] = {}
        self._idle: OrderedDict[Http1Connection, Hashable] = OrderedDict()
        """All idle connections, the oldest first."""
        self._taken = 0
        self._turns: OrderedDict[Hashable, None] = OrderedDict()
        """Servers with waiting callers and free slots of their own."""
        self._sweep: asyncio.TimerHandle | None = None

    async def take(self, key: Hashable, *, fresh: bool = False) -> Http1Connection | None:
        """Return an idle connection to the server, or `None`: then the caller may make a new one.
        With `fresh`, idle connections are not used."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        if lane.taken < self._per_host and self._taken < self._size:
            return self._grant(lane, fresh=fresh)
        place: asyncio.Future[Http1Connection | None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(place)
        self._queue(key, lane)
        try:
            connection = await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give(key, place.result())  # its turn came in the same moment
            else:
                lane.waiting.remove(place)
                self._queue(key, lane)
                self._forget(key, lane)
            raise
        if fresh and connection is not None:
            connection.close()
            return None
        return connection

    def give(self, key: Hashable, connection: Http1Connection | None) -> None:
        """End the use of a slot; a connection that may be used again is kept."""
        lane = self._lanes[key]
        lane.taken -= 1
        self._taken -= 1
        if connection is not None and connection.usable:
            self._keep(key, lane, connection)
        if lane.waiting:
            self._queue(key, lane)
        if self._turns:
            self._serve()
        if not lane.taken:
            self._forget(key, lane)

    @property
    def idle(self) -> int:
        """The number of connections that are kept for later requests."""
        return len(self._idle)

    def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        self._keep_s = 0.0
        for connection in tuple(self._idle):
            self._drop(connection)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _grant(self, lane: _Lane, *, fresh: bool) -> Http1Connection | None:
        lane.taken += 1
        self._taken += 1
        while lane.idle and not fresh:
            connection = lane.idle.pop()
            del self._idle[connection]
            connection.on_lost = None
            if connection.usable:
                return connection
        if self._idle and self._taken + len(self._idle) > self._size:
            self._drop(next(iter(self._idle)))
        return None

    def _queue(self, key: Hashable, lane: _Lane) -> None:
        if lane.waiting and lane.taken < self._per_host:
            self._turns.setdefault(key)
        else:
            self._turns.pop(key, None)

    def _serve(self) -> None:
        while self._turns and self._taken < self._size:
            key, _ = self._turns.popitem(last=False)
            lane = self._lanes[key]
            place = next((each for each in lane.waiting if not each.done()), None)
            if place is None:
                continue  # all of them were cancelled a moment ago
            lane.waiting.remove(place)
            place.set_result(self._grant(lane, fresh=False))
            self._queue(key, lane)

    def _keep(self, key: Hashable, lane: _Lane, connection: Http1Connection) -> None:
        if self._keep_s <= 0:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        connection.on_lost = self._lose
        lane.idle.append(connection)
        self._idle[connection] = key
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._keep_s / 2, self._tidy)

    def _lose(self, connection: Http1Connection) -> None:
        """Forget an idle connection that was closed."""
        key = self._idle.pop(connection)
        lane = self._lanes[key]
        lane.idle.remove(connection)
        self._forget(key, lane)

    def _drop(self, connection: Http1Connection) -> None:
        connection.on_lost = None
        self._lose(connection)
        connection.close()

    def _tidy(self) -> None:
        self._sweep = None
        before = time.monotonic() - self._keep_s
        for connection in tuple(self._idle):
            if connection.idle_since > before:
                break
            self._drop(connection)
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(self._keep_s / 2, self._tidy)

    def _forget(self, key: Hashable, lane: _Lane) -> None:
        if not (lane.taken or lane.idle or lane.waiting):
            self._lanes.pop(key, None)
