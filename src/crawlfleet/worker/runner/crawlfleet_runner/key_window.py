"""The window of the fleet's politeness ledger that one process holds of a key.

A key is a host, a registered domain or an IP address. These are the rules by which every process of
the fleet uses what the ledger grants: the engine of a crawl and the runner of spiders both import
them, so this module imports only the standard library. It does no I/O: the caller gives the time,
by a clock that nobody can set (`now`) and by the wall clock.
"""

import math
import time
from typing import Final

IDLE_S: Final = 1.0
"""A process gives back a window that it has not used for so long."""
ASK_EVERY_S: Final = 0.5
"""The shortest time between two requests to the ledger for one host."""
FORGOTTEN_S: Final = 30.0
"""A process forgets a host that it has not visited for so long."""
RENEW_AT: Final = 0.5
"""Share of a window after which a new one is requested, so that there is always one."""
EARLY_S: Final = 0.0005
"""The most by which a timer may wake too early."""
SOON_S: Final = 0.02
"""Wants that come within this time travel together."""
TROUBLE_S: Final = 1.0
"""Seconds until the next request to a ledger that did not answer."""
REPORT_EVERY_S: Final = 60.0
"""The time between two log lines about a ledger that does not answer."""
LAST_WORDS_S: Final = 2.0
"""The longest that the end of a process waits for the ledger to take windows back."""
MAX_HOSTS_AT_ONCE: Final = 500
"""The most hosts in one message."""
LONG_PAUSE_S: Final = 15.0
"""A host that is left alone for longer is given back, and no request waits for it."""

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake() -> float:
    """Seconds on a clock that only goes forward, also while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class KeyWindow:
    """A key, the window that this process holds of it, and how far it has used that."""

    __slots__ = (
        "_begun_at",
        "_delay_s",
        "_end",
        "_end_wall",
        "_entered_at",
        "_most",
        "_permits",
        "_start",
        "in_flight",
        "last_start",
        "owes",
        "used_at",
    )

    def __init__(self) -> None:
        self.in_flight = 0
        self.owes = False
        """True when the last use of the window must still be reported to the ledger."""
        self.used_at = self.last_start = self._entered_at = -math.inf
        self._delay_s = 0.0
        self._permits = self._most = 0
        self.end()

    @property
    def is_held(self) -> bool:
        """Return whether the process has a window, which may be over."""
        return self._end > -math.inf

    def grant(
        self,
        *,
        start_in_s: float,
        end_in_s: float,
        delay_s: float,
        permits: int,
        now: float,
        asked_at: float,
        asked_wall: float,
    ) -> None:
        """The ledger granted a window, or made it longer. It begins from when the answer came and
        ends counted from when it was asked for, so that it lies within the one that the ledger
        knows: messages take their time, which is on our side."""
        self._start = now + start_in_s
        self._end = asked_at + end_in_s
        self._end_wall = asked_wall + end_in_s
        self._begun_at = now
        self._delay_s = delay_s
        self._permits = permits
        self.owes = False
        self.used_at = max(self.used_at, now)

    def end(self) -> None:
        """The process has no window any more."""
        self._start = math.inf
        self._end = self._end_wall = self._begun_at = -math.inf

    def wait_s(
        self, now: float, wall: float, *, delay_s: float = 0.0, not_before: float = -math.inf
    ) -> float | None:
        """Return the delay before the next request: at least `delay_s` after the last one, and not
        before `not_before`. `None` when something must change first: a window must be granted, or a
        request must end."""
        if now >= self._end or wall >= self._end_wall or self.in_flight >= self._permits:
            return None
        rested = max(self.last_start, self._entered_at) + max(self._delay_s, delay_s)
        at = max(self._start, rested, not_before)
        return None if at >= self._end else max(at - now, 0.0)

    def has_permit(self, taken: int, now: float, wall: float) -> bool:
        """Return whether the window is not over and has more permits than are taken."""
        return now < self._end and wall < self._end_wall and taken < self._permits

    def may_start(self, now: float, wall: float) -> bool:
        """Return whether a request may go out at this moment."""
        rested = now >= self.last_start + self._delay_s - EARLY_S
        return self._start <= now < self._end and wall < self._end_wall and rested

    def enter(self, now: float) -> None:
        """A request takes a permit."""
        self.in_flight += 1
        self._entered_at = self.used_at = now

    def started(self, now: float) -> None:
        """A request that took a permit goes out."""
        self.last_start = self._entered_at = self.used_at = now

    def need(self, permits: int) -> None:
        """The process has use for so many permits, those that are taken included; 0 is any."""
        self._most = max(permits, self.in_flight) if permits else 0

    def claim(self) -> int:
        """The most permits to ask for; 0 is any number. Permits that are not asked for any more
        are not used any more."""
        if self._most:
            self._permits = min(self._permits, self._most)
        return self._most

    def needs_window(self, now: float, *, delay_s: float = 0.0) -> bool:
        """Return whether the process must request a window now: to have one in time with all the
        permits that it can use, to leave permits to other processes, or because requests must be
        `delay_s` apart, which is more than the window says."""
        if now >= self._end or delay_s > self._delay_s:
            return True
        if self._most and self._most != self._permits:
            return True
        renew_at = self._begun_at + (self._end - self._begun_at) * RENEW_AT
        resting = max(self.last_start, self._entered_at) + self._delay_s >= self._end
        return now >= renew_at or resting

    def is_used(self, now: float) -> bool:
        """Return whether the next request is likely to come soon; polite processes take their
        time."""
        return now < self.used_at + IDLE_S + 1.5 * self._delay_s

    def is_due_back(self, now: float, *, has_waiters: bool) -> bool:
        """Return whether to give the window back to the ledger: it is over, or not needed."""
        if self.owes:
            return not self.in_flight
        if not self.is_held:
            return False
        return now >= self._end or not (has_waiters or self.in_flight or self.is_used(now))

    def give_back(self, now: float) -> float | None:
        """Note that the window is given back, and return how long ago the last request went out;
        `None` when none did. Requests that are in flight have to be reported once more."""
        self.owes = self.in_flight > 0
        return now - self.last_start if self.last_start > -math.inf else None
