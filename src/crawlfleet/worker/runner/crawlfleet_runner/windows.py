"""The hosts of a spider, each with the window that this process has of it."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .key_window import ASK_EVERY_S, FORGOTTEN_S, KeyWindow

HOST: Final = "host:"
Go = Callable[[str], None]
"""Called when a request may start; with a reason, when it must not."""


class Host(KeyWindow):
    """A host, and the window that this process has of it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.delay_s = self.crawl_delay_s = 0.0
        """Minimum seconds between two requests: by the project's settings, and by robots.txt."""
        self.concurrency = 1
        self.room = 0
        """Number of requests at once that this worker can use, where others visit parts of the
        host; else 0."""
        self.handed = 0
        """Number of requests that Scrapy has and that are not answered."""
        self.waiting: deque[tuple[Go, bool]] = deque()
        """Callbacks of requests that wait to start, each with whether it waits without a time
        limit."""
        self.is_wanted = False
        """True when a request would start if there were a window."""
        self.has_timer = False
        self.ask_at = self.paused_until = -math.inf

    @property
    def rests_s(self) -> float:
        """The delay between two starts, by all that is known here."""
        return max(self.delay_s, self.crawl_delay_s)

    def begin(
        self, window: dict[str, Any], *, now: float, asked_at: float, asked_wall: float
    ) -> None:
        """The ledger granted a window, or made it longer."""
        self.grant(
            start_in_s=window["start_in_s"],
            end_in_s=window["end_in_s"],
            delay_s=window["delay_s"],
            permits=window["permits"],
            now=now,
            asked_at=asked_at,
            asked_wall=asked_wall,
        )
        self.is_wanted = False

    def has_room(self, now: float, wall: float) -> bool:
        """Return whether one more request may go to Scrapy."""
        return now >= self.paused_until and self.has_permit(self.handed, now, wall)

    def turn_in_s(self, now: float, wall: float) -> float | None:
        """Return the delay before the next request. `None` when something must change first: a
        window must be granted, or a request must end."""
        return self.wait_s(now, wall, delay_s=self.rests_s, not_before=self.paused_until)

    def start(self, now: float) -> None:
        """A request goes out."""
        self.enter(now)
        self.started(now)

    def wants(self, now: float) -> bool:
        """Return whether to request a window."""
        if now < self.ask_at or now < self.paused_until:
            return False
        is_used = self.is_held and self.is_used(now)
        if not (self.waiting or self.in_flight or self.is_wanted or is_used):
            return False
        self.need(self.room)
        return self.needs_window(now, delay_s=self.rests_s)

    def want(self, now: float) -> dict[str, Any]:
        """The request for a window."""
        self.ask_at = now + ASK_EVERY_S
        terms: dict[str, Any] = {
            "key": HOST + self.name,
            "delay_s": self.rests_s,
            "concurrency": self.concurrency,
        }
        if most := self.claim():
            terms["most"] = most
        waiting = max(len(self.waiting), 1)
        return {"host": self.name, "keys": [terms], "waiting": waiting}

    def is_to_return(self, now: float) -> bool:
        """Return whether to give a window back to the ledger: it is over, or not needed."""
        return self.is_due_back(now, has_waiters=bool(self.waiting))

    def back(self, now: float) -> dict[str, Any]:
        """The message that gives a window back."""
        ago_s = self.give_back(now)
        told: dict[str, Any] = {"key": HOST + self.name, "in_flight": self.in_flight}
        return told if ago_s is None else {**told, "started_ago_s": ago_s}

    def refuse(self, refusal: dict[str, Any], now: float) -> None:
        """The ledger granted no window for now."""
        self.ask_at = now + refusal["again_in_s"]
        if refusal.get("is_pause"):
            self.paused_until = max(self.paused_until, self.ask_at)

    def is_idle(self, now: float) -> bool:
        """Return whether the host can be forgotten. One with a crawl delay is kept: its robots.txt
        is read once in the life of a process."""
        busy = self.in_flight or self.handed or self.waiting or self.is_wanted
        known = self.is_held or self.owes or self.crawl_delay_s
        return not (busy or known) and now > max(self.used_at, self.paused_until) + FORGOTTEN_S
