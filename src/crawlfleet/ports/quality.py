"""The part of a store that keeps what was measured of crawls; rows are written by `commit`."""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.quality import Decision, MeasuredRun


class MeasuredRuns(Protocol):
    """Every method may raise `StoreUnavailable`."""

    async def measured_runs(
        self, series: str, *, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """Up to `limit` runs of a series with an id below `after`, newest first.

        `series` is the whole name, as `crawlfleet.model.quality.series_key` makes it.
        """
        ...

    async def measured_runs_of(self, task_ids: Sequence[str]) -> list[MeasuredRun]:
        """All runs of these tasks, oldest first; a task that ended again has several."""
        ...

    async def decisions_of(self, task_ids: Sequence[str]) -> dict[str, Decision]:
        """What was said of the newest run of each of these tasks; nothing of those without."""
        ...

    async def newest_of_series(
        self, *, project_id: str | None, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """The newest run of each of up to `limit` series beyond the whole name `after`, in order
        of their whole names."""
        ...

    async def remove_measured_runs(self, *, before: float, keep: int, limit: int) -> int:
        """Remove up to `limit` runs from before then, and as many that are not among the newest
        `keep` of their series; those that are held stay. Returns how many went."""
        ...
