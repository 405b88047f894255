"""What a process holds of the fleet's ledger: for each host, the window in which it may be asked.

The same rules as those of a crawl's engine (`crawlfleet.crawl.politeness.ledger_windows`), which
cannot be imported here. Pure: the time is given, by a clock that nobody can set (`now`) and by the
wall clock.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

HOST: Final = "host:"
IDLE_S: Final = 1.0
"""A window that nobody has used for so long is given back."""
ASK_EVERY_S: Final = 0.5
"""About one host, at most."""
FORGOTTEN_S: Final = 30.0
"""A host that nobody has asked for so long is forgotten."""
RENEW_AT: Final = 0.5
"""Of its length: then a window is asked for anew, so that it never ends while there is work."""
Go = Callable[[str], None]
"""Called when a request may start; with a reason, when it must not."""


class Host:
    """A host, and the window that this process has of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.delay_s = self.crawl_delay_s = 0.0
        """Between two starts, as the project wants it, and as robots.txt does."""
        self.concurrency = 1
        self.room = 0
        """Requests at once that there is use for, where others ask parts of the host; else 0."""
        self.handed = 0
        """Requests that were let go to Scrapy, and have not been answered."""
        self.in_flight = 0
        self.waiting: deque[tuple[Go, bool]] = deque()
        """Who waits to start, and whether however long that takes."""
        self.is_wanted = False
        """Whether somebody would begin, were there a window."""
        self.owes = False
        """Whether the ledger is to hear once more how far it was used."""
        self.has_timer = False
        self.ask_at = self.paused_until = self.used_at = self.last_start = -math.inf
        self._permits = 0
        self._delay_s = 0.0
        self._start = math.inf
        self._end = self._end_wall = self._begun_at = -math.inf

    @property
    def rests_s(self) -> float:
        """Between two starts, by all that is known here."""
        return max(self.delay_s, self.crawl_delay_s)

    @property
    def is_held(self) -> bool:
        return self._end > -math.inf

    def begin(
        self, window: dict[str, Any], *, now: float, asked_at: float, asked_wall: float
    ) -> None:
        """A window was granted, or made longer: from when the answer came, until so long after it
        was asked for; so that it lies within the one that the ledger knows."""
        self._start = now + window["start_in_s"]
        self._end = asked_at + window["end_in_s"]
        self._end_wall = asked_wall + window["end_in_s"]
        self._begun_at = now
        self._delay_s = window["delay_s"]
        self._permits = window["permits"]
        self.owes = self.is_wanted = False
        self.used_at = max(self.used_at, now)

    def end(self) -> None:
        self._start = math.inf
        self._end = self._end_wall = self._begun_at = -math.inf

    def has_room(self, now: float, wall: float) -> bool:
        """Whether one more request could be let go to Scrapy."""
        is_open = now < self._end and wall < self._end_wall and now >= self.paused_until
        return is_open and self.handed < self._permits

    def wait_s(self, now: float, wall: float) -> float | None:
        """For how long the next request must wait; `None` when something must change first: a
        window that is granted, or a request that ends."""
        if now >= self._end or wall >= self._end_wall or self.in_flight >= self._permits:
            return None
        rested = self.last_start + max(self._delay_s, self.rests_s)
        at = max(self._start, rested, self.paused_until)
        return None if at >= self._end else max(at - now, 0.0)

    def started(self, now: float) -> None:
        self.in_flight += 1
        self.last_start = self.used_at = now

    def wants(self, now: float) -> bool:
        """Whether a window is to be asked for."""
        if now < self.ask_at or now < self.paused_until:
            return False
        is_used = self.is_held and now < self.used_at + IDLE_S + 1.5 * self._delay_s
        if not (self.waiting or self.in_flight or self.is_wanted or is_used):
            return False
        if now >= self._end or self.rests_s > self._delay_s:
            return True
        if self.room and max(self.room, self.in_flight) != self._permits:
            return True
        resting = self.last_start + self._delay_s >= self._end
        return resting or now >= self._begun_at + (self._end - self._begun_at) * RENEW_AT

    def want(self, now: float) -> dict[str, Any]:
        """What to ask for. What is not asked for any more is not used any more."""
        self.ask_at = now + ASK_EVERY_S
        terms: dict[str, Any] = {
            "key": HOST + self.name,
            "delay_s": self.rests_s,
            "concurrency": self.concurrency,
        }
        if self.room:
            terms["most"] = max(self.room, self.in_flight)
            self._permits = min(self._permits, terms["most"])
        waiting = max(len(self.waiting), 1)
        return {"host": self.name, "keys": [terms], "waiting": waiting}

    def is_to_return(self, now: float) -> bool:
        """Whether the ledger is to hear that a window is over, or not needed."""
        if self.owes:
            return not self.in_flight
        if not self.is_held:
            return False
        is_used = now < self.used_at + IDLE_S + 1.5 * self._delay_s
        return now >= self._end or not (self.waiting or self.in_flight or is_used)

    def back(self, now: float) -> dict[str, Any]:
        """What to say of a window that is over."""
        self.owes = self.in_flight > 0
        told: dict[str, Any] = {"key": HOST + self.name, "in_flight": self.in_flight}
        if self.last_start > -math.inf:
            told["started_ago_s"] = now - self.last_start
        return told

    def refuse(self, refusal: dict[str, Any], now: float) -> None:
        """Not now."""
        self.ask_at = now + refusal["again_in_s"]
        if refusal.get("is_pause"):
            self.paused_until = max(self.paused_until, self.ask_at)

    def is_idle(self, now: float) -> bool:
        """Whether it can be forgotten. Its robots.txt is read once in the life of a process."""
        busy = self.in_flight or self.handed or self.waiting or self.is_wanted
        known = self.is_held or self.owes or self.crawl_delay_s
        return not (busy or known) and now > max(self.used_at, self.paused_until) + FORGOTTEN_S
