"""Locks of one process, gone with it; for tests and simulations."""

import time
from collections.abc import Callable

from crawlfleet.model.wire.locks import LockHold, LockOccupied


class MemoryLocks:
    """Implements `crawlfleet.ports.locks.Locks`."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Keep leases by `clock`, which must never be set, and count tokens by `now`."""
        self._clock = clock
        self._now = now
        self._held: dict[str, tuple[LockHold, float]] = {}
        self._newest = 0

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        found = self._living(name)
        if found is not None and found.holder != holder:
            return self._occupied(found)
        if found is None:
            self._newest = max(self._newest + 1, int(self._now() * 1e6))
        token = self._newest if found is None else found.token
        hold = LockHold(name=name, holder=holder, token=token, lease_s=lease_s)
        self._held[name] = hold, self._clock() + lease_s
        return hold

    async def renew(self, hold: LockHold) -> bool:
        found = self._living(hold.name)
        if found is None or (found.holder, found.token) != (hold.holder, hold.token):
            return False
        self._held[hold.name] = found, self._clock() + found.lease_s
        return True

    async def release(self, hold: LockHold) -> bool:
        found = self._living(hold.name)
        if found is None or (found.holder, found.token) != (hold.holder, hold.token):
            return False
        del self._held[hold.name]
        return True

    async def look(self, name: str) -> LockOccupied | None:
        found = self._living(name)
        return None if found is None else self._occupied(found)

    def _living(self, name: str) -> LockHold | None:
        hold, until = self._held.get(name, (None, 0.0))
        if hold is not None and until <= self._clock():
            del self._held[name]
            return None
        return hold

    def _occupied(self, hold: LockHold) -> LockOccupied:
        free_in_s = self._held[hold.name][1] - self._clock()
        return LockOccupied(holder=hold.holder, token=hold.token, free_in_s=free_in_s)
