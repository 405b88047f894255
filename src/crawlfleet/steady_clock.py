"""A wall clock for durations: it goes on evenly when somebody sets the machine's clock.

It reads as the machine's clock did when it was made, and follows what NTP corrects little by
little. A step is left out: what was to last ten minutes lasts ten minutes. While the machine
sleeps, it goes on.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

STEP_S: Final = 1.0
"""The machine's clock was set when its distance from `awake` changes by more than this between two
readings."""
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake() -> float:
    """Return seconds of a clock that is never set, and that goes on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class SteadyClock:
    """A clock to call for the seconds since the epoch, from any thread."""

    def __init__(
        self,
        *,
        set_by_s: float = 0.0,
        wall: Callable[[], float] = time.time,
        awake: Callable[[], float] = awake,
    ) -> None:
        """`set_by_s` is the value of another clock of this machine; the new clock continues from
        it."""
        self._wall, self._awake = wall, awake
        self._lock = threading.Lock()
        self._gap = wall() - awake()
        self._set_by_s = set_by_s

    @property
    def set_by_s(self) -> float:
        """Seconds by which the machine's clock was set ahead since this one was made; negative when
        back."""
        self()
        return self._set_by_s

    def __call__(self) -> float:
        # All under the lock: of two threads that see the same step, one may count it.
        with self._lock:
            wall = self._wall()
            gap = wall - self._awake()
            if abs(step := gap - self._gap) > STEP_S:
                self._set_by_s += step
            self._gap = gap
            return wall - self._set_by_s
