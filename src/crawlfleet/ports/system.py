"""The machine: time and randomness, so that a simulation can stand in for both."""

from typing import Protocol


class System(Protocol):
    """Wall clock and entropy. Waiting is asyncio's business."""

    def now(self) -> float:
        """Seconds since the epoch, on this process's own clock."""
        ...

    def entropy(self, size: int) -> bytes:
        """`size` random bytes, unguessable outside of simulations."""
        ...
