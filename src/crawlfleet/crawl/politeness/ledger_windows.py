"""The windows that an engine holds of the fleet's ledger, and the hosts that need them."""

import asyncio
import math
from contextlib import suppress

from crawlfleet.model.wire.politeness import Refused, Return, Terms, Window, WindowRequest
from crawlfleet.worker.runner.crawlfleet_runner.key_window import (
    ASK_EVERY_S,
    FORGOTTEN_S,
    KeyWindow,
)


class LeasedKey(KeyWindow):
    """A key with the requests of this engine that wait for it."""

    __slots__ = ("hosts", "key", "waiting")

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.hosts = 0
        """The number of hosts that need the key."""
        self.waiting: set[asyncio.Future[None]] = set()

    @property
    def is_free(self) -> bool:
        """Return whether the key can be forgotten."""
        return not (self.is_held or self.owes or self.in_flight or self.waiting)

    def begin(self, window: Window, *, now: float, asked_at: float, asked_wall: float) -> None:
        """The ledger granted a window, or made it longer."""
        self.grant(
            start_in_s=window.start_in_s,
            end_in_s=window.end_in_s,
            delay_s=window.delay_s,
            permits=window.permits,
            now=now,
            asked_at=asked_at,
            asked_wall=asked_wall,
        )
        self.wake()

    def terms(self, terms: Terms) -> Terms:
        """The terms to ask for now."""
        most = self.claim()
        return Terms(terms.key, terms.delay_s, terms.concurrency, most) if most else terms

    def leave(self) -> None:
        """A request gives its permit back."""
        self.in_flight -= 1
        self.wake()

    def is_to_return(self, now: float) -> bool:
        """Return whether to give the window back to the ledger: it is over, or not needed."""
        return self.is_due_back(now, has_waiters=bool(self.waiting))

    def back(self, now: float) -> Return:
        """The message that gives the window back."""
        ago_s = self.give_back(now)
        return Return(key=self.key, started_ago_s=ago_s, in_flight=self.in_flight)

    def wake(self) -> None:
        """Wake the waiting requests, so that they check the window again."""
        for future in self.waiting:
            if not future.done():
                future.set_result(None)


class LeasedHost:
    """A host with its keys, all of which each of its requests needs."""

    __slots__ = (
        "_keys",
        "_terms",
        "ask_at",
        "delay_s",
        "known_until",
        "name",
        "paused_until",
        "room",
        "waiters",
    )

    def __init__(self, name: str, terms: list[Terms]) -> None:
        self.name = name
        self.delay_s = terms[0].delay_s
        """Current delay of the host's own clock."""
        self.room = 0
        """Requests at once that there is use for, where others visit parts of the host; else 0."""
        self.waiters = 0
        self.ask_at = -math.inf
        self.paused_until = -math.inf
        self.known_until = 0.0
        self._terms = terms
        self._keys: list[LeasedKey] = []

    def join(self, keys: dict[str, LeasedKey]) -> None:
        """Be one of those that need their keys."""
        for terms in self._terms:
            key = keys.get(terms.key)
            if key is None:
                key = keys[terms.key] = LeasedKey(terms.key)
            key.hosts += 1
            self._keys.append(key)

    def part(self, keys: dict[str, LeasedKey]) -> None:
        for key in self._keys:
            key.hosts -= 1
            if key.hosts <= 0 and key.is_free:
                keys.pop(key.key, None)

    def wait_s(self, now: float, wall: float) -> float | None:
        """The longest wait of its keys; `None` when something must change first."""
        longest = 0.0
        for key in self._keys:
            wait_s = key.wait_s(now, wall)
            if wait_s is None:
                return None
            longest = max(longest, wait_s)
        return longest

    def is_granted(self, now: float, wall: float) -> bool:
        """Return whether a request need not wait."""
        for key in self._keys:
            wait_s = key.wait_s(now, wall)
            if wait_s is None or wait_s > 0.0:
                return False
        return True

    async def changed(self, within_s: float | None) -> None:
        """Wait until something has changed with one of its keys, or for so long."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in self._keys:
            key.waiting.add(future)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await future
        finally:
            for key in self._keys:
                key.waiting.discard(future)

    def enter(self, now: float) -> None:
        for key in self._keys:
            key.enter(now)

    def leave(self) -> None:
        for key in self._keys:
            key.leave()

    def go(self, now: float, wall: float) -> bool:
        """Return whether a request may go out at this moment. If it may, it is counted."""
        for key in self._keys:
            if not key.may_start(now, wall):
                return False
        for key in self._keys:
            key.started(now)
        return True

    def wants(self, now: float) -> bool:
        """Return whether to request windows."""
        if now < self.ask_at or now < self.paused_until:
            return False
        for key in self._keys:
            # Those of a domain or an address serve all of its hosts that are visited here.
            key.need(self.room * key.hosts)
        key = self._keys[0]
        busy = self.waiters or key.in_flight or (key.is_held and key.is_used(now))
        return bool(busy) and any(key.needs_window(now) for key in self._keys)

    def want(self, now: float) -> WindowRequest:
        self.ask_at = now + ASK_EVERY_S
        own = self._terms[0]
        delay_s = max(own.delay_s, self.delay_s)
        asked = (Terms(own.key, delay_s, own.concurrency), *self._terms[1:])
        keys = tuple(key.terms(each) for key, each in zip(self._keys, asked, strict=True))
        return WindowRequest(host=self.name, keys=keys, waiting=max(self.waiters, 1))

    def refuse(self, refusal: Refused, now: float) -> None:
        """Note that the ledger granted no window for now."""
        self.ask_at = now + refusal.again_in_s
        if refusal.is_pause:
            self.paused_until = self.ask_at
            self._keys[0].wake()

    def is_idle(self, now: float) -> bool:
        """Return whether the host can be forgotten."""
        key = self._keys[0]
        rests = key.in_flight or key.is_held or key.owes or self.waiters
        return not rests and now > max(key.used_at, self.paused_until) + FORGOTTEN_S
