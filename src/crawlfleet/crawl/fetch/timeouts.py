"""One timer that looks after the time limits of many requests.

A timer for each request costs more than all the rest of a small page; limits are in seconds, so
that a look at all that is under way, a few times a second, is enough.
"""

import asyncio
import time
from typing import Final, Protocol

TICK_S: Final = 0.25


class Timed(Protocol):
    def check(self, now: float) -> None:
        """Give up if it is time, by the monotonic clock."""
        ...


class TimeoutWatch:
    """Calls `check` of everything added until it is discarded; sleeps when there is nothing."""

    def __init__(self, tick_s: float = TICK_S) -> None:
        self._tick_s = tick_s
        self._watched: set[Timed] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, thing: Timed) -> None:
        self._watched.add(thing)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._look)

    def discard(self, thing: Timed) -> None:
        self._watched.discard(thing)

    def close(self) -> None:
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        # Set first, so that one thing in trouble does not leave all others without a limit.
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._look)
        now = time.monotonic()
        for thing in tuple(self._watched):
            thing.check(now)
        if not self._watched:
            self._timer.cancel()
            self._timer = None
