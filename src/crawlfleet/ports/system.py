"""The machine: time and randomness, so that a simulation can stand in for them."""

from typing import Protocol


class System(Protocol):
    """Clocks and entropy. Waiting is asyncio's business."""

    def now(self) -> float:
        """Seconds since the epoch, on this process's own clock: for stamps, and for all that lasts
        or is waited for. It may go on evenly when the machine's clock is set."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch by the machine's clock as it is set now: for what is due at an
        instant of the calendar, and for comparing it with other machines."""
        ...

    def entropy(self, size: int) -> bytes:
        """`size` random bytes, unguessable outside of simulations."""
        ...
