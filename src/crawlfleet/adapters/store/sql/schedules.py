"""The part of a SQL store that is about schedules."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Statements, Values
from crawlfleet.features.schedules.model import Firing, Schedule

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class SqlSchedules(ABC, Generic[T]):
    """Implements `crawlfleet.ports.schedules.Schedules`."""

    _statements: Statements[T]

    @abstractmethod
    async def _decode(
        self, mapping: RowMap[S], statement: T, runs: Sequence[Values], choose: Any = None
    ) -> list[S]: ...

    @abstractmethod
    async def _write(self, job: Any) -> Any: ...

    async def schedules(self) -> list[Schedule]:
        return await self._decode(rows.SCHEDULE, self._statements.of_schedules.all, [{}])

    async def schedules_among(self, ids: Sequence[str]) -> list[Schedule]:
        statement = self._statements.by_ids(rows.SCHEDULE.table)
        found = await self._decode(rows.SCHEDULE, statement, [{"ids": list(ids)}])
        return sorted(found, key=attrgetter("id"))

    async def firings(self, schedule_id: str, *, after: str | None, limit: int) -> list[Firing]:
        values: Values = {"schedule_id": schedule_id, "limit": max(limit, 0)}
        if after is None:
            return await self._decode(rows.FIRING, self._statements.of_schedules.firings, [values])
        statement = self._statements.of_schedules.firings_before
        return await self._decode(rows.FIRING, statement, [values | {"after": after}])

    async def remove_firings(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_firings(before, limit)))

    async def remove_schedules(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_schedules(before, limit)))
