"""The machine: time and randomness, so that a simulation can stand in for them."""

from typing import Protocol


class System(Protocol):
    """Clocks and entropy. Waiting is left to asyncio."""

    def now(self) -> float:
        """Return seconds since the epoch on this process's own clock: for time stamps, durations
        and waits. It may go on evenly when the machine's clock is set.
        """
        ...

    def wall(self) -> float:
        """Return seconds since the epoch by the machine's clock as it is set now: for calendar
        times, and for comparison with other machines.
        """
        ...

    def entropy(self, size: int) -> bytes:
        """Return `size` random bytes, unguessable outside of simulations."""
        ...
