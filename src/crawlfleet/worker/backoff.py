"""Delays between retries: longer each time, and random, so that nodes do not retry all at once.

A fleet whose master comes back after an outage must not overload it.
"""

from typing import Final

from crawlfleet.errors import CrawlfleetError
from crawlfleet.ports.system import System

MAX_OBEYED_S: Final = 60.0
"""Maximum delay that a master can ask for. After it the node retries in any case: another master
may answer by then."""


def chance_of(system: System) -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(system.entropy(4), "big") / 2**32


class Pauses:
    """Delays that double, each multiplied by a random factor from 0.5 to 1.5."""

    def __init__(self, system: System, *, first_s: float, longest_s: float) -> None:
        self._system = system
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next(self, error: CrawlfleetError) -> float:
        """Return the delay after one more failure, in seconds; not less than the master asked
        for."""
        chance = chance_of(self._system)
        pause_s = self._next_s * (0.5 + chance)
        self._next_s = min(self._next_s * 2, self._longest_s)
        asked_s = min(error.retry_after_s or 0.0, MAX_OBEYED_S)
        return max(pause_s, asked_s * (1.0 + chance / 2))

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._next_s = self._first_s
