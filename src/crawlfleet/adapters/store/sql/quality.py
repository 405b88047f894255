"""The part of a SQL store that is about the quality of what crawls find."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values
from crawlfleet.model.quality import Decision, MeasuredRun

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
BEYOND: Final = "~"
"""Greater than the name of any project."""


class SqlQuality(ABC, Generic[T]):
    """Implements `crawlfleet.ports.quality.MeasuredRuns`."""

    _statements: Statements[T]

    @abstractmethod
    async def _decode(
        self, mapping: RowMap[S], statement: T, runs: Sequence[Values], choose: Any = None
    ) -> list[S]: ...

    @abstractmethod
    async def _fetch(self, statement: T, values: Values) -> Rows: ...

    @abstractmethod
    async def _among(self, mapping: RowMap[S], ids: list[str]) -> list[S]: ...

    @abstractmethod
    async def _write(self, job: Any) -> Any: ...

    async def measured_runs(
        self, series: str, *, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        statements = self._statements.of_quality
        values: Values = {"series": series, "limit": max(limit, 0)}
        if after is None:
            return await self._decode(rows.MEASURED_RUN, statements.runs, [values])
        values["after"] = after
        return await self._decode(rows.MEASURED_RUN, statements.runs_before, [values])

    async def measured_runs_of(self, task_ids: Sequence[str]) -> list[MeasuredRun]:
        statement = self._statements.of_quality.of_tasks
        return await self._decode(rows.MEASURED_RUN, statement, [{"ids": list(task_ids)}])

    async def decisions_of(self, task_ids: Sequence[str]) -> dict[str, Decision]:
        statement = self._statements.of_quality.decisions
        found = await self._fetch(statement, {"ids": list(task_ids)})
        return {str(task_id): Decision(decision) for task_id, decision in found}

    async def newest_of_series(
        self, *, project_id: str | None, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        first, last = ("", BEYOND) if project_id is None else (f"{project_id}/", f"{project_id}0")
        values: Values = {"first": max(first, after or ""), "last": last, "limit": max(limit, 0)}
        found = await self._fetch(self._statements.of_quality.series, values)
        newest = await self._among(rows.MEASURED_RUN, [id for _, id in found])
        return sorted(newest, key=attrgetter("series"))

    async def remove_measured_runs(self, *, before: float, keep: int, limit: int) -> int:
        return int(await self._write(maintenance.remove_measured_runs(before, keep, limit)))
