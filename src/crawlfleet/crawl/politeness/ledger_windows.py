"""What an engine holds of the fleet's ledger: windows of keys, and the hosts that need them."""

import asyncio
import math
from contextlib import suppress
from typing import Final

from crawlfleet.model.wire.politeness import Refused, Return, Terms, Want, Window

IDLE_S: Final = 1.0
"""A window that nobody has used for so long is given back."""
ASK_EVERY_S: Final = 0.5
"""About one host, at most."""
FORGOTTEN_S: Final = 30.0
"""A host that nobody has visited for so long is forgotten."""
RENEW_AT: Final = 0.5
"""Of its length: then a window is asked for anew, so that it never ends while there is work."""
EARLY_S: Final = 0.0005
"""By so much a timer may wake too early."""


class GrantedKey:
    """A host, a domain or an address: the window that this engine has of it."""

    __slots__ = (
        "_begun_at",
        "_delay_s",
        "_end",
        "_end_wall",
        "_entered_at",
        "_last_start",
        "_most",
        "_permits",
        "_start",
        "hosts",
        "in_flight",
        "key",
        "owes",
        "used_at",
        "waiting",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.hosts = 0
        """How many need it."""
        self.in_flight = 0
        self.owes = False
        """Whether the ledger is to hear once more how far it was used."""
        self.used_at = -math.inf
        self.waiting: set[asyncio.Future[None]] = set()
        self._last_start = self._entered_at = -math.inf
        self.end()
        self._delay_s = 0.0
        self._permits = 0
        self._most = 0

    @property
    def is_held(self) -> bool:
        return self._end > -math.inf

    @property
    def is_free(self) -> bool:
        """Whether nothing is to be remembered of it."""
        return not (self.is_held or self.owes or self.in_flight or self.waiting)

    def begin(self, window: Window, *, now: float, asked_at: float, asked_wall: float) -> None:
        """A window was granted, or made longer. It is not used before it begins by the clock of
        whoever granted it, nor after its end: messages take their time, which is on our side."""
        self._start = now + window.start_in_s
        self._end = asked_at + window.end_in_s
        self._end_wall = asked_wall + window.end_in_s
        self._begun_at = now
        self._delay_s = window.delay_s
        self._permits = window.permits
        self.owes = False
        self.used_at = max(self.used_at, now)
        self.wake()

    def end(self) -> None:
        self._start = math.inf
        self._end = self._end_wall = self._begun_at = -math.inf

    def wait_s(self, now: float, wall: float) -> float | None:
        """For how long a request must wait for its own sake; `None` when something must change
        first: a window that is granted, or a request that ends."""
        if now >= self._end or wall >= self._end_wall or self.in_flight >= self._permits:
            return None
        at = max(self._start, max(self._last_start, self._entered_at) + self._delay_s)
        return None if at >= self._end else at - now

    def need(self, permits: int) -> None:
        """There is use for so many, those that are taken included; 0 is any number."""
        self._most = max(permits, self.in_flight) if permits else 0

    def terms(self, terms: Terms) -> Terms:
        """As they are asked for now. What is not asked for any more is not used any more."""
        if self._most:
            self._permits = min(self._permits, self._most)
            terms = Terms(terms.key, terms.delay_s, terms.concurrency, self._most)
        return terms

    def needs_window(self, now: float) -> bool:
        """Whether a window must be asked for now: so that there is one in time, with all the
        permits that there is use for, or since others could use some of them."""
        if now >= self._end or (self._most and self._most != self._permits):
            return True
        renew_at = self._begun_at + (self._end - self._begun_at) * RENEW_AT
        resting = max(self._last_start, self._entered_at) + self._delay_s >= self._end
        return now >= renew_at or resting

    def may_start(self, now: float, wall: float) -> bool:
        """Whether a request may go out in this very moment."""
        rested = now >= self._last_start + self._delay_s - EARLY_S
        return self._start <= now < self._end and wall < self._end_wall and rested

    def enter(self, now: float) -> None:
        self.in_flight += 1
        self._entered_at = self.used_at = now

    def started(self, now: float) -> None:
        self._last_start = self._entered_at = self.used_at = now

    def leave(self) -> None:
        self.in_flight -= 1
        self.wake()

    def is_to_return(self, now: float) -> bool:
        """Whether the ledger is to hear that it is over, or not needed."""
        if self.owes:
            return not self.in_flight
        if not self.is_held:
            return False
        return now >= self._end or not (self.waiting or self.in_flight or self.is_used(now))

    def is_used(self, now: float) -> bool:
        """Whether the next request is likely to come soon; those who are polite take their time."""
        return now < self.used_at + IDLE_S + 1.5 * self._delay_s

    def back(self, now: float) -> Return:
        """What to say of it."""
        ago_s = now - self._last_start
        self.owes = self.in_flight > 0
        return Return(
            key=self.key,
            started_ago_s=ago_s if ago_s < math.inf else None,
            in_flight=self.in_flight,
        )

    def wake(self) -> None:
        """Let those who wait look again."""
        for future in self.waiting:
            if not future.done():
                future.set_result(None)


class GrantedHost:
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
        """Of the host's own clock, now."""
        self.room = 0
        """Requests at once that there is use for, where others visit parts of the host; else 0."""
        self.waiters = 0
        self.ask_at = -math.inf
        self.paused_until = -math.inf
        self.known_until = 0.0
        self._terms = terms
        self._keys: list[GrantedKey] = []

    def join(self, keys: dict[str, GrantedKey]) -> None:
        """Be one of those that need their keys."""
        for terms in self._terms:
            key = keys.get(terms.key)
            if key is None:
                key = keys[terms.key] = GrantedKey(terms.key)
            key.hosts += 1
            self._keys.append(key)

    def part(self, keys: dict[str, GrantedKey]) -> None:
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
        """Whether a request need not wait."""
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
        """Whether a request may go out in this very moment; then it counts."""
        for key in self._keys:
            if not key.may_start(now, wall):
                return False
        for key in self._keys:
            key.started(now)
        return True

    def wants(self, now: float) -> bool:
        """Whether windows are to be asked for."""
        if now < self.ask_at or now < self.paused_until:
            return False
        for key in self._keys:
            # Those of a domain or an address serve all of its hosts that are visited here.
            key.need(self.room * key.hosts)
        key = self._keys[0]
        busy = self.waiters or key.in_flight or (key.is_held and key.is_used(now))
        return bool(busy) and any(key.needs_window(now) for key in self._keys)

    def want(self, now: float) -> Want:
        self.ask_at = now + ASK_EVERY_S
        own = self._terms[0]
        delay_s = max(own.delay_s, self.delay_s)
        asked = (Terms(own.key, delay_s, own.concurrency), *self._terms[1:])
        keys = tuple(key.terms(each) for key, each in zip(self._keys, asked, strict=True))
        return Want(host=self.name, keys=keys, waiting=max(self.waiters, 1))

    def refuse(self, refusal: Refused, now: float) -> None:
        """Not now."""
        self.ask_at = now + refusal.again_in_s
        if refusal.is_pause:
            self.paused_until = self.ask_at
            self._keys[0].wake()

    def is_idle(self, now: float) -> bool:
        """Whether it can be forgotten."""
        key = self._keys[0]
        rests = key.in_flight or key.is_held or key.owes or self.waiters
        return not rests and now > max(key.used_at, self.paused_until) + FORGOTTEN_S
