"""The part of a SQL store that is about what projects have used."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Statements, Values
from crawlfleet.model.usage import UsageHour

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class SqlUsage(ABC, Generic[T]):
    """Implements `crawlfleet.ports.usage.Usage`."""

    _statements: Statements[T]

    @abstractmethod
    async def _decode(
        self, mapping: RowMap[S], statement: T, runs: Sequence[Values], choose: Any = None
    ) -> list[S]: ...

    @abstractmethod
    async def _write(self, job: Any) -> Any: ...

    async def usage(
        self, *, since: float, until: float, project_id: str | None = None
    ) -> list[UsageHour]:
        values: Values = {"since": since, "until": until}
        if project_id is None:
            return await self._decode(rows.USAGE, self._statements.of_usage.all, [values])
        statement = self._statements.of_usage.of_project
        return await self._decode(rows.USAGE, statement, [values | {"project_id": project_id}])

    async def remove_usage(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_usage(before, limit)))
