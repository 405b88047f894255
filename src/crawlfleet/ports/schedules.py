"""The part of a store that keeps schedules and what became of their due instants.

Both are versioned rows and are written by `Store.commit`, together with the tasks that they start.
"""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.features.schedules.model import Firing, Schedule


class Schedules(Protocol):
    """Every method may raise `StoreUnavailable`. Lists are in order of id."""

    async def schedules(self) -> list[Schedule]:
        """All that were not removed."""
        ...

    async def schedules_among(self, ids: Sequence[str]) -> list[Schedule]:
        """Those that there are among `ids`, removed ones too."""
        ...

    async def firings(self, schedule_id: str, *, after: str | None, limit: int) -> list[Firing]:
        """Up to `limit` firings of a schedule with an id below `after`, the highest id first.

        That is the order of their due instants, the newest first.
        """
        ...

    async def remove_firings(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` firings that were dealt with before then, the oldest first.

        One that still waits stays. Returns how many went.
        """
        ...

    async def remove_schedules(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` schedules that were removed before then, with their firings.

        Those that were removed first go first. Returns how many went.
        """
        ...
