"""How long to wait before trying again: longer each time, and never at the same time as others.

A fleet whose master comes back after an outage must not fall over it as one.
"""

from crawlfleet.ports.system import System


class Pauses:
    """Pauses that double, each by chance between half and one and a half of what it would be."""

    def __init__(self, system: System, *, first_s: float, longest_s: float) -> None:
        self._system = system
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next(self) -> float:
        """How long to wait after one more failure."""
        chance = int.from_bytes(self._system.entropy(4), "big") / 2**32
        pause_s = self._next_s * (0.5 + chance)
        self._next_s = min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """It worked."""
        self._next_s = self._first_s
