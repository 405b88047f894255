"""Measured runs in plain dictionaries: a part of the memory store."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.memory.copies import share_all
from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.model.quality import Decision, MeasuredRun


class MemoryQuality:
    """Implements `crawlfleet.ports.quality.MeasuredRuns`."""

    _present: Present

    def __init__(self) -> None:
        self._measured_runs: Table[MeasuredRun] = Table()

    async def measured_runs(
        self, series: str, *, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        self._need_open()
        newest = self._measured_runs.beyond(after, newest_first=True)
        found = (each for each in newest if each.series == series)
        return share_all(islice(found, max(limit, 0)))

    async def measured_runs_of(self, task_ids: Sequence[str]) -> list[MeasuredRun]:
        self._need_open()
        wanted = {*task_ids}
        return share_all(each for each in self._measured_runs if each.task_id in wanted)

    async def decisions_of(self, task_ids: Sequence[str]) -> dict[str, Decision]:
        self._need_open()
        wanted = {*task_ids}
        runs = (each for each in self._measured_runs if each.task_id in wanted)
        return {each.task_id: each.decision for each in runs}

    async def newest_of_series(
        self, *, project_id: str | None, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        self._need_open()
        newest = {
            each.series: each
            for each in self._measured_runs
            if project_id in (None, each.project_id) and each.series > (after or "")
        }
        return share_all(newest[series] for series in sorted(newest)[: max(limit, 0)])

    async def remove_measured_runs(self, *, before: float, keep: int, limit: int) -> int:
        self._need_open()
        most = max(limit, 0)
        old = sorted(
            (each.at, each.id)
            for each in self._measured_runs
            if each.at < before and each.decision is not Decision.HELD
        )
        gone = [id for _, id in old[:most]]
        self._forget_runs(gone)
        places: Counter[str] = Counter()
        surplus: list[str] = []
        for each in self._measured_runs.beyond(None, newest_first=True):
            places[each.series] += 1
            if places[each.series] > keep and each.decision is not Decision.HELD:
                surplus.append(each.id)
        surplus = sorted(surplus)[:most]
        self._forget_runs(surplus)
        return len(gone) + len(surplus)

    def _forget_runs(self, ids: Sequence[str]) -> None:
        self._measured_runs.remove(ids)
        for id in ids:
            del self._present.versions[MeasuredRun][id]

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
