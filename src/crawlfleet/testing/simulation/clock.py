"""An event loop whose time moves only when all tasks wait, and then at once."""

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
EPOCH: Final = 1_750_000_000.0


class Stalled(AssertionError):
    """Nothing is left to happen, but a task still waits."""


class _NoWaiting(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stalled("the simulated world stands still")
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs as fast as it can; `time()` is simulated seconds since the start."""

    def __init__(self) -> None:
        self._clock = _NoWaiting()
        super().__init__(self._clock)
        # Instants of a long world differ by more than the nanosecond that would do otherwise: after
        # half a year nothing would ever be due.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.now


class SimulatedSystem:
    """A `System` on the simulated clock, wrong by `skew_s`, with seeded randomness."""

    def __init__(self, chance: random.Random, *, skew_s: float = 0.0) -> None:
        self._chance = chance
        self.skew_s = skew_s
        self.set_by_s = 0.0
        """Seconds by which the machine's clock was set ahead; the clock of this process is not
        affected."""

    def wall(self) -> float:
        return self.now() + self.set_by_s

    def now(self) -> float:
        return EPOCH + self.skew_s + asyncio.get_running_loop().time()

    def entropy(self, size: int) -> bytes:
        return self._chance.randbytes(size)


def run_simulated(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a simulated clock; sleeping costs it no real time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)
