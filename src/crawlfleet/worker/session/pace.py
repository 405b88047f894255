"""Decides how many executions a node should have ready, so that it need not wait for the master.

A node that finishes thousands of short tasks a second would spend its time waiting for the next
assignment; one with long tasks must not keep work that other nodes could begin. So the backlog is
the number of executions that the node finished lately within the time of a round trip, and zero for
anything slow.
"""

from typing import Final

HORIZON_S: Final = 0.25
"""Seconds of work to have ready. This must be longer than a round trip to the master and its disk
under load: with less, the node waits, counts fewer ends, asks for less, and waits more."""
MOST: Final = 4096
FEWEST: Final = 4
"""Minimum backlog; a smaller one is not worth it, since the slots themselves hold as many."""
NEWEST_SHARE: Final = 0.5
"""The weight of the newest measurement against all before it."""


class Pace:
    """Measures how fast executions end."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._ended = 0
        self._per_s = 0.0

    def count_end(self) -> None:
        """Count one more ended execution."""
        self._ended += 1

    def hold_back(self) -> None:
        """Drop the backlog to zero, because executions that were ready did not begin in time."""
        self._per_s = 0.0

    def backlog(self, now: float) -> int:
        """Return how many executions should be ready: a power of two, so that the number seldom
        changes."""
        elapsed = now - self._since
        if elapsed > 0:
            newest = self._ended / max(elapsed, HORIZON_S / 10)
            self._per_s += NEWEST_SHARE * (newest - self._per_s)
            self._since, self._ended = now, 0
        wanted = min(int(self._per_s * HORIZON_S), MOST - 1)
        return 1 << wanted.bit_length() if wanted >= FEWEST else 0
