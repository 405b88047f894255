"""The machine that this process runs on: its clock and its randomness."""

import os
import time
from typing import Final

from crawlfleet.steady_clock import SteadyClock

PORTION: Final = 4096


class Machine:
    """The real `System`. Not to be shared by processes: they would draw the same entropy."""

    def __init__(self, *, steady: bool = False) -> None:
        """Create the clocks. With `steady`, `now` leaves out what the machine's clock is set ahead
        or back: for a process whose instants no other machine reads.
        """
        self.now = SteadyClock() if steady else time.time
        self._drawn = b""
        self._used = 0

    def entropy(self, size: int) -> bytes:
        # Drawn in portions: a system call for each id would cost as much as the rest of it.
        end = self._used + size
        if end > len(self._drawn):
            self._drawn = os.urandom(max(size, PORTION))
            self._used, end = 0, size
        drawn = self._drawn[self._used : end]
        self._used = end
        return drawn

    def wall(self) -> float:
        return time.time()
