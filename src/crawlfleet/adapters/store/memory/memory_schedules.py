"""Schedules and firings in plain dictionaries: a part of the memory store."""

from collections.abc import Sequence
from itertools import islice

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.memory.copies import share_all
from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.features.schedules.model import Firing, Outcome, Schedule


class MemorySchedules:
    """Implements `crawlfleet.ports.schedules.Schedules`."""

    _present: Present

    def __init__(self) -> None:
        self._schedules: Table[Schedule] = Table()
        self._firings: dict[str, Table[Firing]] = {}
        """By schedule."""

    async def schedules(self) -> list[Schedule]:
        self._need_open()
        return share_all(each for each in self._schedules if each.removed_at is None)

    async def schedules_among(self, ids: Sequence[str]) -> list[Schedule]:
        self._need_open()
        rows = self._schedules.rows
        return share_all(rows[id] for id in sorted({*ids}) if id in rows)

    async def firings(self, schedule_id: str, *, after: str | None, limit: int) -> list[Firing]:
        self._need_open()
        found = self._firings.get(schedule_id, Table()).beyond(after, newest_first=True)
        return share_all(islice(found, max(limit, 0)))

    async def remove_firings(self, *, before: float, limit: int) -> int:
        self._need_open()
        old = sorted(
            (firing.at, firing.id, firing.schedule_id)
            for table in self._firings.values()
            for firing in table
            if firing.at < before and firing.outcome is not Outcome.QUEUED
        )[: max(limit, 0)]
        for _, id, schedule_id in old:
            self._firings[schedule_id].remove([id])
            del self._present.versions[Firing][id]
        return len(old)

    async def remove_schedules(self, *, before: float, limit: int) -> int:
        self._need_open()
        removed = sorted(
            (each.removed_at, each.id)
            for each in self._schedules
            if each.removed_at is not None and each.removed_at < before
        )
        gone = [id for _, id in removed[: max(limit, 0)]]
        self._schedules.remove(gone)
        for schedule_id in gone:
            del self._present.versions[Schedule][schedule_id]
            for firing in self._firings.pop(schedule_id, Table()):
                del self._present.versions[Firing][firing.id]
        return len(gone)

    def _put_firing(self, firing: Firing) -> None:
        self._firings.setdefault(firing.schedule_id, Table()).put(firing)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
