"""The base of every store with its rows in SQL: all of the port but opening and closing."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.single_master import SoleLead, no_changes
from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.commit_group import Changes
from crawlfleet.adapters.store.sql.history import SqlHistory
from crawlfleet.adapters.store.sql.maintenance import Operation
from crawlfleet.adapters.store.sql.rows import RowMap, mapping_of
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values, filters_of
from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, NodeStatus, Session
from crawlfleet.model.task import TERMINAL, Execution, Shard, Task, TaskStatus
from crawlfleet.ports.store import Change, Claim, Committed, Lead, Leadership, TaskFilter
from crawlfleet.ports.tables import Query, Table

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
Choose = Callable[[Rows], Rows]

PORTION: Final = 1000
_metrics: Final = msgspec.json.Decoder(dict[str, float]).decode


def _first(limit: int, newest_first: bool, found: Rows) -> Rows:
    """Return the rows of several queries that come first by id."""
    return sorted(found, key=itemgetter(0), reverse=newest_first)[:limit]


class SqlStore(SqlHistory[T], ABC, Generic[T]):
    """The store by SQL statements; a subclass carries statements and jobs out."""

    def __init__(self, statements: Statements[T]) -> None:
        self._statements = statements

    @abstractmethod
    async def _fetch(self, statement: T, values: Values) -> Rows:
        """The rows of a statement."""

    @abstractmethod
    async def _decode(
        self,
        mapping: RowMap[S],
        statement: T,
        runs: Sequence[Values],
        choose: Choose | None = None,
    ) -> list[S]:
        """The structs of the rows of a statement, run once with each of the values.

        `choose` picks among all the rows found, before they are decoded.
        """

    @abstractmethod
    async def _write(self, job: Changes | Operation[T]) -> Any:
        """The outcome of a job, when it is durable."""

    async def lead(self, leader: str) -> Lead | None:
        return SoleLead(int(await self._write(maintenance.lead(leader))))

    async def leadership(self) -> Leadership:
        ((epoch, leader),) = await self._fetch(self._statements.leader, {})
        return Leadership(epoch=int(epoch), leader=leader)

    async def verify(self) -> None:
        """A server is asked with each commit."""

    def changes(self) -> AsyncIterator[int]:
        return no_changes()

    async def commit(self, changes: Sequence[Change]) -> Committed:
        committed: Committed = await self._write(changes)
        return committed

    async def get(self, table: Table[S], id: str) -> S | None:
        return await self._one(mapping_of(table), id)

    async def get_many(self, table: Table[S], ids: Sequence[str]) -> list[S]:
        return await self._among_in_order(mapping_of(table), ids)

    async def find(self, query: Query[S]) -> list[S]:
        mapping: RowMap[S] = mapping_of(query.table)
        if not query.newest_of:
            return await self._decode(mapping, *self._statements.queries.find(query))
        plan = self._statements.queries.newest(query)
        newest = await self._fetch(plan.statement, plan.runs[0])
        found = await self._among(mapping, [id for _, id in newest])
        return sorted(found, key=attrgetter(query.newest_of))

    async def values(self, query: Query[Any], *fields: str) -> list[tuple[Any, ...]]:
        plan, mapping = self._statements.queries.find(query, fields), mapping_of(query.table)
        assert len(plan.runs) == 1, "a list of values is not merged"
        readers = [mapping.reader(name) for name in fields]
        return [
            tuple(read(value) for read, value in zip(readers, row, strict=True))
            for row in await self._fetch(plan.statement, plan.runs[0])
        ]

    async def count(self, query: Query[Any], by: str) -> dict[Any, int]:
        plan = self._statements.queries.count(query, by)
        read = mapping_of(query.table).reader(by)
        return {
            read(value): count for value, count in await self._fetch(plan.statement, plan.runs[0])
        }

    async def remove(self, query: Query[Any]) -> int:
        return int(await self._write(maintenance.remove(query)))

    async def node(self, id: str) -> Node | None:
        return await self._one(rows.NODE, id)

    async def nodes(self, status: Sequence[NodeStatus] = ()) -> list[Node]:
        if not status:
            return await self._in_order(rows.NODE)
        states = {"states": [state.value for state in status]}
        return await self._decode(rows.NODE, self._statements.nodes_in, [states])

    async def nodes_among(self, ids: Sequence[str]) -> list[Node]:
        return await self._among_in_order(rows.NODE, ids)

    async def session(self, id: str) -> Session | None:
        return await self._one(rows.SESSION, id)

    async def sessions_among(self, ids: Sequence[str]) -> list[Session]:
        return await self._among_in_order(rows.SESSION, ids)

    async def live_sessions(self) -> list[Session]:
        return await self._decode(rows.SESSION, self._statements.live_sessions, [{}])

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        by_id = {task.id: task for task in await self._among(rows.TASK, list(ids))}
        return [by_id[wanted] for wanted in ids if wanted in by_id]

    async def task_states(self, ids: Sequence[str]) -> dict[str, TaskStatus]:
        found = await self._fetch(self._statements.task_states, {"ids": list(ids)})
        return {id: TaskStatus(status) for id, status in found}

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        found = await self._fetch(self._statements.task_owners, {"ids": list(ids)})
        return {str(id): str(project_id) for id, project_id in found}

    async def find_tasks(
        self,
        filter: TaskFilter,
        *,
        after: str | None,
        limit: int,
        newest_first: bool = True,
        with_results: bool = True,
    ) -> list[Task]:
        """One query for each state, since within a state the index is in order; then the best."""
        if limit <= 0:
            return []
        given, values = filters_of(filter)
        statement = self._statements.find_tasks(
            given, filter.dead, after is not None, newest_first, with_results
        )
        values["limit"] = limit
        if after is not None:
            values["after"] = after
        if not filter.status:
            return await self._decode(rows.TASK, statement, [values])
        runs = [{**values, "status": state.value} for state in sorted(set(filter.status))]
        choose = partial(_first, limit, newest_first)
        return await self._decode(rows.TASK, statement, runs, choose)

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        statement = self._statements.count_tasks(project_id is not None)
        values = {} if project_id is None else {"project_id": project_id}
        return {TaskStatus(row[0]): row[1] for row in await self._fetch(statement, values)}

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        counts: dict[str, dict[TaskStatus, int]] = {}
        for project, status, count in await self._fetch(self._statements.count_by_project, {}):
            counts.setdefault(project, {})[TaskStatus(status)] = count
        return counts

    async def count_unfinished(self, cluster_id: str) -> dict[TaskStatus, int]:
        values = {"cluster_id": cluster_id}
        found = await self._fetch(self._statements.count_unfinished, values)
        return {TaskStatus(row[0]): row[1] for row in found}

    async def shards(self, parent_id: str) -> list[Shard]:
        found = await self._fetch(self._statements.shards, {"parent_id": parent_id})
        return [
            Shard(
                id=id,
                shard=int(shard),
                status=TaskStatus(status),
                execution_id=execution_id,
                assigned_node=node,
                metrics=_metrics(metrics) if metrics else {},
            )
            for id, shard, status, execution_id, node, metrics in found
        ]

    async def unfinished_tasks(self) -> AsyncIterator[list[Task]]:
        ((found,),) = await self._fetch(self._statements.unfinished_ids, {})
        ids = sorted(self._statements.listed(found))
        for start in range(0, len(ids), PORTION):
            tasks = await self.tasks(ids[start : start + PORTION])
            portion = [task for task in tasks if task.status not in TERMINAL]
            if portion:
                yield portion

    async def executions(self, task_id: str) -> list[Execution]:
        values = {"task_id": task_id}
        return await self._decode(rows.EXECUTION, self._statements.attempts, [values])

    async def execution(self, id: str) -> Execution | None:
        return await self._one(rows.EXECUTION, id)

    async def live_executions(self, task_ids: Sequence[str] | None = None) -> list[Execution]:
        if task_ids is None:
            return await self._decode(rows.EXECUTION, self._statements.live_executions, [{}])
        ids = {"ids": list(task_ids)}
        return await self._decode(rows.EXECUTION, self._statements.live_attempts, [ids])

    async def claim(self, scope: str, key: str) -> Claim | None:
        named = {"scope": scope, "key": key}
        return next(iter(await self._decode(rows.CLAIM, self._statements.claim, [named])), None)

    async def events(self, *, after: int, limit: int, subject: str | None = None) -> list[Event]:
        values: Values = {"after": after, "limit": max(limit, 0)}
        if subject is not None:
            values["subject"] = subject
        statement = self._statements.find_events(subject is not None)
        return await self._decode(rows.EVENT, statement, [values])

    async def audit(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> list[AuditEntry]:
        values: Values = msgspec.structs.asdict(filter) | {"after": after}
        values = {name: value for name, value in values.items() if value is not None}
        if filter.subject is not None:
            # As it stands in the list: no id is found inside of another.
            values["subject"] = msgspec.json.encode(filter.subject).decode()
        statement = self._statements.find_audit(frozenset(values))
        return await self._decode(rows.AUDIT, statement, [values | {"limit": max(limit, 0)}])

    async def cursor(self, consumer: str) -> int:
        found = await self._fetch(self._statements.cursor, {"name": consumer})
        return int(found[0][0]) if found else 0

    async def move_cursor(self, consumer: str, seq: int) -> None:
        await self._write(maintenance.move_cursor(consumer, seq))

    async def remove_cursor(self, consumer: str) -> None:
        await self._write(maintenance.remove_cursor(consumer))

    async def remove_finished(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_finished(before, limit)))

    async def remove_events(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_events(before, limit)))

    async def remove_sessions(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_sessions(before, limit)))

    async def remove_nodes(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_nodes(before, limit)))

    async def remove_audit(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_audit(before, limit)))

    async def _in_order(self, mapping: RowMap[S]) -> list[S]:
        return await self._decode(mapping, self._statements.in_order(mapping.table), [{}])

    async def _among(self, mapping: RowMap[S], ids: list[str]) -> list[S]:
        return await self._decode(mapping, self._statements.by_ids(mapping.table), [{"ids": ids}])

    async def _among_in_order(self, mapping: RowMap[S], ids: Sequence[str]) -> list[S]:
        return sorted(await self._among(mapping, list(ids)), key=attrgetter("id"))

    async def _one(self, mapping: RowMap[S], id: str) -> S | None:
        found = await self._among(mapping, [id])
        return found[0] if found else None


def decode(mapping: RowMap[S], found: Sequence[Any], choose: Choose | None) -> list[S]:
    """Decode the rows of `_decode`, once they are read."""
    return mapping.decode_all(choose(found) if choose else found)
