"""Holds a lock: renews its lease in the background, and gives it up before the lease may be over.

The lease counts from the time of the request, by a monotonic clock that goes on while the process
or the machine sleeps. A tenth of it is left as a margin, for clocks that differ in speed.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from crawlfleet.errors import LockBusy, LockLost, LocksUnavailable
from crawlfleet.model.wire.locks import LockHold
from crawlfleet.ports.locks import LockSource

MARGIN: Final = 0.1
RENEW_AFTER: Final = 0.3
"""Share of the lease after which it is renewed: so three renewals may fail before it is lost."""
LOOK_EVERY_S: Final = 0.5
"""Interval at which the clock is read: timers of the event loop stand still while a machine
sleeps."""
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 0.5


def awake() -> float:
    """Return seconds on a clock that only goes forward, also while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class HeldLock:
    """Implements `crawlfleet.ports.locks.Lock` on any locks. To be entered once."""

    def __init__(
        self,
        locks: LockSource,
        name: str,
        *,
        holder: str,
        lease_s: float,
        wait_s: float | None = None,
        clock: Callable[[], float] = awake,
    ) -> None:
        """Create a lock, not yet held. `wait_s` is the time limit for waiting for other holders;
        `None` for no limit."""
        self._locks = locks
        self._name = name
        self._holder = holder
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._clock = clock
        self._hold: LockHold | None = None
        self._sure_until = float("-inf")
        self._why = ""
        """The reason why the lock was lost; empty while it is held."""
        self._keeping: asyncio.Task[None] | None = None
        self._inside: asyncio.Task[object] | None = None
        self._cancelled = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def token(self) -> int:
        if self._hold is None:
            raise LockLost(f"the lock {self._name!r} is not held; enter it first")
        return self._hold.token

    @property
    def remaining_s(self) -> float:
        return max(self._sure_until - self._clock(), 0.0)

    @property
    def is_held(self) -> bool:
        return self._clock() < self._sure_until

    def check(self) -> None:
        if not self.is_held:
            raise self._lost()

    async def __aenter__(self) -> Self:
        self._inside = asyncio.current_task()
        self._hold = await self._take()
        self._keeping = asyncio.create_task(self._keep(self._hold), name=f"lock {self._name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        hold, keeping = self._hold, self._keeping
        assert hold is not None
        assert keeping is not None
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        was_held = self.is_held
        self._sure_until = float("-inf")
        if self._cancelled and self._inside is not None:
            # Ours unless somebody else cancelled the task, too: then that counts.
            others = self._inside.uncancel()
            if kind is asyncio.CancelledError and not others:
                raise self._lost() from error
        if was_held:
            with suppress(LocksUnavailable):  # then it ends by itself
                await self._locks.release(hold)
        elif kind is None:
            raise self._lost()
        return None

    async def _take(self) -> LockHold:
        until = None if self._wait_s is None else self._clock() + self._wait_s
        pause_s = FIRST_PAUSE_S
        while True:
            asked_at = self._clock()
            trouble = ""
            try:
                found = await self._locks.take(self._name, self._holder, self._lease_s)
            except LocksUnavailable as error:
                trouble = str(error)
            else:
                if isinstance(found, LockHold):
                    self._sure(asked_at)
                    if self.is_held:
                        return found
                    trouble = "the answer took longer than the lease"
                    pause_s = 0.0  # it is ours already
                else:
                    trouble = f"{found.holder} has it, for {found.free_in_s:.1f} s or longer"
                    pause_s = min(pause_s, max(found.free_in_s, FIRST_PAUSE_S))
            now = self._clock()
            if until is not None and now >= until:
                raise LockBusy(f"the lock {self._name!r} is not free: {trouble}")
            # By chance, so that those who wait do not all ask at once.
            wait_s = pause_s * random.uniform(0.5, 1.0)  # noqa: S311
            await asyncio.sleep(wait_s if until is None else min(wait_s, until - now))
            pause_s = min(max(pause_s, FIRST_PAUSE_S) * 1.5, MAX_PAUSE_S)

    def _sure(self, asked_at: float) -> None:
        self._sure_until = asked_at + self._lease_s * (1.0 - MARGIN)

    async def _keep(self, hold: LockHold) -> None:
        """Renew the lease until the lock is left, or until the lease is no longer certain."""
        renewing: asyncio.Task[bool] | None = None
        renew_at = asked_at = self._sure_until - self._lease_s * (1.0 - MARGIN - RENEW_AFTER)
        try:
            while (now := self._clock()) < self._sure_until:
                if renewing is None and now >= renew_at:
                    asked_at = now
                    renewing = asyncio.create_task(self._locks.renew(hold))
                if renewing is not None and renewing.done():
                    done, renewing = renewing, None
                    renew_at = self._renewed(done, asked_at)
                    continue
                wait_s = min(self._sure_until - now, LOOK_EVERY_S)
                if renewing is None:
                    await asyncio.sleep(min(wait_s, max(renew_at - now, 0.0)))
                else:
                    await asyncio.wait([renewing], timeout=wait_s)
        finally:
            if renewing is not None:
                renewing.cancel()
        self._why = self._why or "its renewals did not come through"
        self._sure_until = float("-inf")
        assert self._inside is not None
        self._cancelled = True
        self._inside.cancel()

    def _renewed(self, renewing: "asyncio.Task[bool]", asked_at: float) -> float:
        """Take the answer; when to renew next."""
        try:
            is_held = renewing.result()
        except Exception as error:  # whatever it is, the lease goes on running
            self._why = str(error) or type(error).__name__
            return self._clock() + self._lease_s * RENEW_AFTER / 3
        if not is_held:
            self._why = "its lease was over, and somebody else may have it"
            self._sure_until = float("-inf")
            return self._clock()
        self._why = ""
        self._sure(asked_at)
        return asked_at + self._lease_s * RENEW_AFTER

    def _lost(self) -> LockLost:
        why = self._why or "its lease may be over"
        return LockLost(f"the lock {self._name!r} is not held any more: {why}")
