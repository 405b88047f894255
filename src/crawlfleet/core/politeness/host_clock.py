"""Clock of a host: decides when the next request to it may start.

Every request uses a slot of its host's clock: pages, retries, redirects and robots.txt alike. The
delay counts from start to start. Three things make it longer, each bounded by `max_delay_s`:

- robots.txt's Crawl-delay;
- slow answers (`adaptive`): twice the part of the smoothed latency above half a second;
- 429 and 503 (`adaptive`): doubled with each, and a tenth less after each page.

Only a page makes the delay shorter again (`served`). Any other answer may be a wall, and walls
answer quickly, with any status: 403, 402, 451, a challenge with a 200, a 404 that hides one, a
redirect to a captcha. They can make us slower and never quicker.

There are also pauses: Retry-After, obeyed up to a day; and failures in a row, each of which doubles
the pause, until the host is given up for a while. Answers to requests that were under way when a
pause began do not count again: sixteen failures at once are one.
"""

from typing import Final, NamedTuple

import msgspec

from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import Outcome, Politeness

MAX_RETRY_AFTER_S: Final = 86_400.0
"""Longest pause that a site can ask for; a longer one is cut, and the pause says so."""

GIVE_UP_AFTER: Final = 8
"""Failures in a row after which a host is left alone for a while."""
GIVEN_UP_S: Final = 1800.0
MAX_GIVEN_UP_S: Final = 6 * 3600.0
LOST_AFTER: Final = GIVE_UP_AFTER + 2
"""Failures in a row after which the host's other URLs may be given up too; by then hours have
passed."""

_FIRST_FAILURE_PAUSE_S: Final = 2.0
_SLOW_S: Final = 0.5
_SLOWNESS: Final = 2.0
_SMOOTHING: Final = 0.3
_FIRST_PENALTY_S: Final = 1.0
_RECOVERY: Final = 0.9
_NO_PENALTY_S: Final = 0.05

_UNREACHABLE: Final = frozenset(
    {Outcome.DNS, Outcome.CONNECT, Outcome.TLS, Outcome.TIMEOUT, Outcome.BAD_RESPONSE}
)
_UNASKED: Final = frozenset({Outcome.ROBOTS, Outcome.REFUSED})
"""Outcomes of requests that never reached the host."""
_OVERLOADED: Final = frozenset({429, 503})
_SERVED: Final = frozenset({Outcome.OK, Outcome.NOT_MODIFIED})
"""Outcomes of requests that the site served. A 304 counts as the page: only a server that has the
page knows that it has not changed."""
_NOT_YET: Final = 202
"""Status "accepted": some walls send it while they check a visitor, so it does not count as a
page."""


class HostPause(NamedTuple):
    """Pause of a host beyond its usual delay."""

    until: float
    reason: str


class HostShare(NamedTuple):
    """Share of the limits of a domain or an address that one process may use."""

    delay_s: float
    """Seconds from the start of a request to the start of the next."""
    concurrency: int


def share_of(politeness: Politeness, hosts: int | None, workers: int) -> HostShare | None:
    """Return one process's share of a domain or address that is treated as `hosts` hosts, when
    `workers` processes crawl; `None` when there is no limit. Together they stay within the
    limit."""
    if hosts is None:
        return None
    return HostShare(
        delay_s=politeness.delay_s / hosts * workers,
        concurrency=max(1, politeness.concurrency * hosts // workers),
    )


class HostClock:
    """Clock of one host. It has one owner, and changes in place, since it is used for every
    request."""

    __slots__ = (
        "_began",
        "_floor",
        "_latency",
        "_penalty",
        "_politeness",
        "_sent_at",
        "concurrency",
        "delay_s",
        "failures",
        "in_flight",
        "next_at",
    )

    def __init__(self, politeness: Politeness, state: HostState | None = None) -> None:
        self._politeness = politeness
        self._floor = politeness.delay_s
        self._latency = 0.0
        self._penalty = 0.0
        self._began = 0.0
        """Start of the last pause; requests that started earlier do not change the clock any
        more."""
        self._sent_at = 0.0
        self.concurrency = politeness.concurrency
        """Limit of requests under way at once, for this owner's part."""
        self.in_flight = 0
        self.next_at = 0.0
        self.failures = 0
        self.delay_s = self._floor
        """Present delay between two starts, in seconds."""
        if state is not None:
            self.next_at = state.next_at
            self.failures = state.failures
            if politeness.adaptive and state.delay_s > self._floor:
                self._penalty = min(state.delay_s, politeness.max_delay_s)
                self._settle()

    def grant(self, now: float, want: int = 1) -> int:
        """Return how many requests may start now; each must be returned by `observe` or `release`.

        With a delay it is one at a time. After a 0, the caller asks again at `next_at`, or when a
        request under way has ended.
        """
        if want <= 0 or now < self.next_at:
            return 0
        free = self.concurrency - self.in_flight
        if free <= 0:
            return 0
        if self.delay_s > 0.0:
            self.next_at = now + self.delay_s
            self.in_flight += 1
            return 1
        slots = min(free, want)
        self.in_flight += slots
        return slots

    def release(self, slots: int = 1) -> None:
        """Return slots that were not used."""
        self.in_flight = max(self.in_flight - slots, 0)

    def sent(self, at: float) -> None:
        """Record that a request was sent at this time, maybe well after it was granted, since
        connecting takes time. The host counts from the request that it sees."""
        self._sent_at = at
        if self.delay_s > 0.0 and self.next_at < at + self.delay_s:
            self.next_at = at + self.delay_s

    def observe(
        self,
        outcome: Outcome,
        status: int,
        latency_s: float,
        retry_after_s: float | None,
        now: float,
    ) -> HostPause | None:
        """Return the slot of a request that has ended, and slow down if its outcome requires it.
        Returns the pause that begins with it, or `None`."""
        if self.in_flight:
            self.in_flight -= 1
        if outcome is Outcome.OK and not self.failures and not self._politeness.adaptive:
            return None  # nothing to learn: the way of nearly every page of a fast crawl
        if outcome in _UNASKED:
            return None
        news = now - latency_s >= self._began
        if outcome in _UNREACHABLE:
            return self._failed(outcome, now) if news else None
        self.failures = 0
        pause = None
        if self._politeness.adaptive:
            if latency_s > self._latency:
                self._latency += _SMOOTHING * (latency_s - self._latency)
            if status in _OVERLOADED and news:
                pause = self._overloaded(status, now)
            self._settle()
        if retry_after_s and retry_after_s > 0.0 and status >= 300:
            pause = self._told(retry_after_s, now) or pause
        return pause

    def served(self, outcome: Outcome, status: int, latency_s: float) -> None:
        """Record that an observed response was parsed and judged: a page shortens the delay."""
        if not self._politeness.adaptive or outcome not in _SERVED or status == _NOT_YET:
            return
        if latency_s < self._latency:
            self._latency += _SMOOTHING * (latency_s - self._latency)
        self._recover()
        self._settle()

    def crawl_delay(self, seconds: float | None) -> str | None:
        """Apply the Crawl-delay of robots.txt; return a message when it asks for more than is
        applied."""
        most = max(self._politeness.max_delay_s, self._politeness.delay_s)
        self._floor = max(self._politeness.delay_s, min(seconds or 0.0, most))
        self._settle()
        if self.delay_s > 0.0:
            self.next_at = max(self.next_at, self._sent_at + self.delay_s)
        if seconds is not None and seconds > most:
            return f"Crawl-delay of {seconds:g} s is shortened to {most:g} s (`max_delay_s`)"
        return None

    @property
    def given_up(self) -> bool:
        """True if the host is left alone for a while, since no request reaches it."""
        return self.failures >= GIVE_UP_AFTER

    @property
    def lost(self) -> bool:
        """True if the host was still unreachable after the pauses, so that its URLs need not wait
        on."""
        return self.failures >= LOST_AFTER

    def state(self, before: HostState) -> HostState:
        """Return the state that moves with the host; robots.txt and cookies are those of
        `before`."""
        return msgspec.structs.replace(
            before, next_at=self.next_at, delay_s=self.delay_s, failures=self.failures
        )

    def _settle(self) -> None:
        delay = max(self._floor, self._penalty)
        if self._latency > _SLOW_S and self._politeness.adaptive:
            slow = _SLOWNESS * (self._latency - _SLOW_S)
            delay = max(delay, min(slow, self._politeness.max_delay_s))
        self.delay_s = delay

    def _recover(self) -> None:
        if self._penalty:
            self._penalty *= _RECOVERY
            if self._penalty < max(self._floor, _NO_PENALTY_S):
                self._penalty = 0.0

    def _overloaded(self, status: int, now: float) -> HostPause:
        worse = max(2.0 * self._penalty, 2.0 * self._floor, _FIRST_PENALTY_S)
        self._penalty = max(min(worse, self._politeness.max_delay_s), self._floor)
        return self._pause(now, self._penalty, f"answered {status}")

    def _failed(self, outcome: Outcome, now: float) -> HostPause:
        self.failures += 1
        if self.failures < GIVE_UP_AFTER:
            longest = max(self._politeness.max_delay_s, _FIRST_FAILURE_PAUSE_S)
            seconds = min(_FIRST_FAILURE_PAUSE_S * 2.0 ** (self.failures - 1), longest)
            return self._pause(now, seconds, f"failed {self.failures} times in a row ({outcome})")
        doublings = min(self.failures - GIVE_UP_AFTER, 10)
        seconds = min(GIVEN_UP_S * 2.0**doublings, MAX_GIVEN_UP_S)
        reason = f"given up for a while: failed {self.failures} times in a row ({outcome})"
        return self._pause(now, seconds, reason)

    def _told(self, seconds: float, now: float) -> HostPause | None:
        if now + min(seconds, MAX_RETRY_AFTER_S) <= self.next_at:
            return None
        if seconds > MAX_RETRY_AFTER_S:
            reason = f"Retry-After of {seconds:.0f} s, shortened to {MAX_RETRY_AFTER_S:.0f} s"
            return self._pause(now, MAX_RETRY_AFTER_S, reason)
        return self._pause(now, seconds, f"Retry-After of {seconds:g} s")

    def _pause(self, now: float, seconds: float, reason: str) -> HostPause:
        self._began = now
        self.next_at = max(self.next_at, now + seconds)
        return HostPause(self.next_at, reason)
