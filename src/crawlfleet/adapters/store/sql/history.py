"""Logs and samples in SQL: `crawlfleet.ports.history` for every store with its rows in SQL."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import schema
from crawlfleet.adapters.store.sql.maintenance import Operation, Put, Steps
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values
from crawlfleet.model.log import LogLevel, LogLine, LogPart, LogSize
from crawlfleet.model.node_sample import NodeSample, Resolution
from crawlfleet.ports.history import LINE_BYTES

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class StoredLine(msgspec.Struct, frozen=True, kw_only=True):
    """A log line with the id of its execution."""

    execution_id: str
    seq: int
    at: float
    level: LogLevel
    message: str
    fields: dict[str, Any] = {}


LINE: Final = RowMap(StoredLine, schema.execution_logs)
SAMPLE: Final = RowMap(NodeSample, schema.node_samples)


class SqlHistory(ABC, Generic[T]):
    """The history by SQL statements; a store carries the statements out."""

    _statements: Statements[T]

    @abstractmethod
    async def _archive(self, operation: Operation[T]) -> Any:
        """The outcome of an operation that takes no part in commits, when it is durable."""

    @abstractmethod
    async def _fetch(self, statement: T, values: Values) -> Rows:
        """The rows of a statement."""

    @abstractmethod
    async def _decode(self, mapping: RowMap[S], statement: T, runs: Sequence[Values]) -> list[S]:
        """The structs of the rows of a statement, run once with each of the values."""

    async def append_logs(self, parts: Sequence[LogPart]) -> None:
        if parts:
            await self._archive(_append_logs(parts))

    async def logs(
        self, execution_id: str, *, after: int, limit: int, levels: Sequence[LogLevel] = ()
    ) -> list[LogLine]:
        values: Values = {"execution_id": execution_id, "after": after, "limit": max(limit, 0)}
        if levels:
            values["levels"] = [level.value for level in levels]
        found = await self._decode(LINE, self._statements.find_logs(bool(levels)), [values])
        return [
            LogLine(
                seq=line.seq,
                at=line.at,
                level=line.level,
                message=line.message,
                fields=line.fields,
            )
            for line in found
        ]

    async def remove_logs(self, *, before: float, limit: int) -> int:
        return int(await self._archive(_remove_logs(before, limit)))

    async def oldest_log(self, *, since: float) -> float | None:
        ((at,),) = await self._fetch(self._statements.oldest_log, {"since": since})
        return None if at is None else float(at)

    async def log_size(self, *, since: float, until: float) -> LogSize:
        values = {"since": since, "until": until}
        ((lines, texts),) = await self._fetch(self._statements.log_size, values)
        return LogSize(lines=int(lines), bytes=int(lines) * LINE_BYTES + int(texts or 0))

    async def append_samples(self, samples: Sequence[NodeSample]) -> None:
        if samples:
            await self._archive(_put_samples(samples))

    async def samples(
        self, node_id: str, resolution: Resolution, *, since: float, until: float, limit: int
    ) -> list[NodeSample]:
        values = _span(node_id, resolution, since, until) | {"limit": max(limit, 0)}
        return await self._decode(SAMPLE, self._statements.find_samples, [values])

    async def replace_samples(
        self,
        node_id: str,
        resolution: Resolution,
        *,
        since: float,
        until: float,
        by: Sequence[NodeSample],
    ) -> None:
        await self._archive(_put_samples(by, _span(node_id, resolution, since, until)))


def _span(node_id: str, resolution: Resolution, since: float, until: float) -> Values:
    return {
        "node_id": node_id,
        "resolution": resolution.value,
        "since": since,
        "until": until,
    }


def _append_logs(parts: Sequence[LogPart]) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        rows: dict[tuple[str, int], StoredLine] = {}
        for part in parts:
            if part.left_out is not None:
                first, last = part.left_out.first, part.left_out.last
                for key in [key for key in rows if _is_within(key, part.execution_id, first, last)]:
                    del rows[key]
                values = {"execution_id": part.execution_id, "first": first, "last": last}
                yield statements.forget_lines, values
            for line in part.lines:
                rows[part.execution_id, line.seq] = _stored(part.execution_id, line)
        if rows:
            yield Put(LINE, LINE.encode(rows.values()))
        return len(rows)

    return steps


def _is_within(key: tuple[str, int], execution_id: str, first: int, last: int) -> bool:
    return key[0] == execution_id and first <= key[1] <= last


def _stored(execution_id: str, line: LogLine) -> StoredLine:
    return StoredLine(
        execution_id=execution_id,
        seq=line.seq,
        at=line.at,
        level=line.level,
        message=line.message,
        fields=line.fields,
    )


def _remove_logs(before: float, limit: int) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        gone = yield statements.remove_logs, {"before": before, "limit": max(limit, 0)}
        return len(gone)

    return steps


def _put_samples(samples: Sequence[NodeSample], instead: Values | None = None) -> Operation[Any]:
    def steps(statements: Statements[T]) -> Steps[T]:
        if instead is not None:
            yield statements.remove_samples, instead
        rows = {(each.node_id, each.resolution, each.at): each for each in samples}
        if rows:
            yield Put(SAMPLE, SAMPLE.encode(rows.values()))
        return len(rows)

    return steps
