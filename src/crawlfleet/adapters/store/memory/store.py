"""A store in plain dictionaries: for simulations and tests, quick and without threads.

It never shares anything that can be changed with its callers: dictionaries inside of rows are
copied on their way in and on their way out.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from copy import copy
from itertools import islice, product
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from crawlfleet.adapters.store.acceptance import (
    CLAIMS_PER_TASK,
    Present,
    default_rows,
    rows_by_kind,
)
from crawlfleet.adapters.store.memory.checks import assert_lasting, assert_usual
from crawlfleet.adapters.store.memory.copies import own, share, share_all
from crawlfleet.adapters.store.memory.filters import is_wanted, matches
from crawlfleet.adapters.store.memory.history import MemoryHistory
from crawlfleet.adapters.store.memory.table import MemoryTable, Rows, meets
from crawlfleet.adapters.store.single_master import SoleLead, no_changes
from crawlfleet.adapters.store.tables import TABLES
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.change import NEVER, Claim, Signed
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, NodeStatus, Session
from crawlfleet.model.task import LIVE_EXECUTION, TERMINAL, Execution, Shard, Task, TaskStatus
from crawlfleet.model.usage import UsageHour, UsageSums, together
from crawlfleet.ports.store import Change, Committed, Lead, Leadership, Refusal, TaskFilter
from crawlfleet.ports.tables import Query, Table, equal, within

S = TypeVar("S", bound=msgspec.Struct)

PORTION: Final = 1000


class MemoryStore(MemoryHistory):
    """Implements `crawlfleet.ports.store.Store`; its rows last as long as the object."""

    def __init__(self, *, now: Callable[[], float] = lambda: 0.0) -> None:
        MemoryHistory.__init__(self)
        self._now = now
        self._opened = False
        self._present = Present()
        self._tables = {table.kind: MemoryTable[Any](table) for table in TABLES}
        self._nodes: Rows[Node] = Rows()
        self._sessions: Rows[Session] = Rows()
        self._tasks: Rows[Task] = Rows()
        self._executions: Rows[Execution] = Rows()
        self._audit: Rows[AuditEntry] = Rows()
        self._put: dict[type[Any], Callable[[Any], None]] = {
            **{kind: table.put for kind, table in self._tables.items()},
            Node: self._nodes.put,
            Session: self._put_session,
            Task: self._put_task,
            Execution: self._put_execution,
        }
        self._live_sessions: set[str] = set()
        self._unfinished: set[str] = set()
        self._counts: Counter[tuple[str, TaskStatus]] = Counter()
        self._shards: dict[str, list[str]] = {}
        self._live_executions: set[str] = set()
        self._attempts: dict[str, list[str]] = {}
        self._events: list[Event] = []
        self._events_of: dict[str, list[Event]] = {}
        self._last_seq = 0
        self._cursors: dict[str, int] = {}
        self._leader = ""

    async def open(self) -> None:
        self._opened = True
        await self.commit([default_rows(self._now())])

    async def close(self) -> None:
        self._opened = False

    async def lead(self, leader: str) -> Lead | None:
        self._need_open()
        self._present.epoch += 1
        self._leader = leader
        return SoleLead(self._present.epoch)

    async def leadership(self) -> Leadership:
        self._need_open()
        return Leadership(epoch=self._present.epoch, leader=self._leader)

    async def verify(self) -> None:
        self._need_open()

    def changes(self) -> AsyncIterator[int]:
        return no_changes()

    async def commit(self, changes: Sequence[Change]) -> Committed:
        self._need_open()
        signed, used = Signed(), UsageSums()
        refusals = tuple(self._make(change, signed, used) for change in changes)
        self._put_usage(used)
        for entry in signed.entries():
            self._audit.put(entry)
        return Committed(refusals=refusals, last_seq=self._last_seq)

    async def get(self, table: Table[S], id: str) -> S | None:
        return next(iter(await self.get_many(table, [id])), None)

    async def get_many(self, table: Table[S], ids: Sequence[str]) -> list[S]:
        self._need_open()
        return share_all(self._tables[table.kind].get_many(ids))

    async def find(self, query: Query[S]) -> list[S]:
        self._need_open()
        return self._tables[query.table.kind].find(query)

    async def values(self, query: Query[Any], *fields: str) -> list[tuple[Any, ...]]:
        self._need_open()
        return [*map(attrgetter(*fields), self._tables[query.table.kind].find(query))]

    async def count(self, query: Query[Any], by: str) -> dict[Any, int]:
        self._need_open()
        return self._tables[query.table.kind].count(query, by)

    async def remove(self, query: Query[Any]) -> int:
        self._need_open()
        keys = self._tables[query.table.kind].keys_of(query)
        self._remove(query.table, keys)
        return len(keys)

    def _remove(self, table: Table[Any], keys: Sequence[Any]) -> None:
        self._tables[table.kind].remove(keys)
        versions = self._present.versions[table.kind]
        for key in keys:
            versions.pop(key, None)
        for owned, key in product(table.owns, keys):
            of = (equal(owned.by, key),) if owned.by else within("id", key + owned.separator)
            self._remove(
                owned.table, self._tables[owned.table.kind].keys_of(owned.table.where(*of))
            )

    async def node(self, id: str) -> Node | None:
        self._need_open()
        node = self._nodes.rows.get(id)
        return None if node is None else share(node)

    async def nodes(self, status: Sequence[NodeStatus] = ()) -> list[Node]:
        self._need_open()
        return share_all(n for n in self._nodes if not status or n.status in status)

    async def nodes_among(self, ids: Sequence[str]) -> list[Node]:
        self._need_open()
        rows = self._nodes.rows
        return share_all(rows[id] for id in sorted({*ids}) if id in rows)

    async def session(self, id: str) -> Session | None:
        self._need_open()
        return self._sessions.rows.get(id)

    async def sessions_among(self, ids: Sequence[str]) -> list[Session]:
        self._need_open()
        rows = self._sessions.rows
        return [rows[id] for id in sorted({*ids}) if id in rows]

    async def live_sessions(self) -> list[Session]:
        self._need_open()
        return [self._sessions.rows[live] for live in sorted(self._live_sessions)]

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        self._need_open()
        rows = self._tasks.rows
        return share_all(rows[wanted] for wanted in ids if wanted in rows)

    async def task_states(self, ids: Sequence[str]) -> dict[str, TaskStatus]:
        self._need_open()
        rows = self._tasks.rows
        return {wanted: rows[wanted].status for wanted in ids if wanted in rows}

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        self._need_open()
        rows = self._tasks.rows
        return {wanted: rows[wanted].project_id for wanted in ids if wanted in rows}

    async def find_tasks(
        self,
        filter: TaskFilter,
        *,
        after: str | None,
        limit: int,
        newest_first: bool = True,
        with_results: bool = True,
    ) -> list[Task]:
        self._need_open()
        found: list[Task] = []
        tasks = self._tasks
        if filter.parent_id is not None:
            tasks = Rows()
            for shard in self._shards.get(filter.parent_id, ()):
                tasks.put(self._tasks.rows[shard])
        for task in tasks.beyond(after, newest_first):
            if len(found) >= limit:
                break
            if matches(task, filter):
                whole = with_results or task.result is None
                found.append(share(task if whole else replace(task, result=None)))
        return found

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        self._need_open()
        counted: Counter[TaskStatus] = Counter()
        for project, counts in (await self.count_tasks_by_project()).items():
            if project_id in (None, project):
                counted.update(counts)
        return dict(counted)

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        self._need_open()
        found: dict[str, dict[TaskStatus, int]] = {}
        for (project_id, status), count in self._counts.items():
            if count:
                found.setdefault(project_id, {})[status] = count
        return found

    async def count_unfinished(self, cluster_id: str) -> dict[TaskStatus, int]:
        self._need_open()
        unfinished = map(self._tasks.rows.__getitem__, self._unfinished)
        return dict(Counter(task.status for task in unfinished if task.cluster_id == cluster_id))

    async def shards(self, parent_id: str) -> list[Shard]:
        self._need_open()
        tasks = map(self._tasks.rows.__getitem__, self._shards.get(parent_id, ()))
        found = [self._shard(task) for task in tasks]
        return sorted(found, key=attrgetter("shard", "id"))

    def _shard(self, task: Task) -> Shard:
        execution = self._executions.rows.get(task.execution_id or "")
        return Shard(
            id=task.id,
            shard=task.shard or 0,
            status=task.status,
            execution_id=task.execution_id,
            assigned_node=task.assigned_node,
            metrics=dict(execution.metrics) if execution else {},
        )

    async def unfinished_tasks(self) -> AsyncIterator[list[Task]]:
        self._need_open()
        ids = sorted(self._unfinished)
        for start in range(0, len(ids), PORTION):
            tasks = await self.tasks(ids[start : start + PORTION])
            portion = [task for task in tasks if task.status not in TERMINAL]
            if portion:
                yield portion

    async def executions(self, task_id: str) -> list[Execution]:
        self._need_open()
        attempts = map(self._executions.rows.__getitem__, self._attempts.get(task_id, ()))
        return share_all(sorted(attempts, key=attrgetter("token", "id")))

    async def execution(self, id: str) -> Execution | None:
        self._need_open()
        execution = self._executions.rows.get(id)
        return None if execution is None else share(execution)

    async def live_executions(self, task_ids: Sequence[str] | None = None) -> list[Execution]:
        self._need_open()
        live: Iterable[str] = self._live_executions
        if task_ids is not None:
            attempts = (id for task_id in {*task_ids} for id in self._attempts.get(task_id, ()))
            live = (id for id in attempts if id in self._live_executions)
        return share_all(self._executions.rows[id] for id in sorted(live))

    async def claim(self, scope: str, key: str) -> Claim | None:
        self._need_open()
        return self._present.claims.get((scope, key))

    async def events(self, *, after: int, limit: int, subject: str | None = None) -> list[Event]:
        self._need_open()
        log = self._events if subject is None else self._events_of.get(subject, [])
        start = bisect_right(log, after, key=attrgetter("seq"))
        return share_all(log[start : start + max(limit, 0)])

    async def audit(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> list[AuditEntry]:
        self._need_open()
        newest = self._audit.beyond(after, newest_first=True)
        return list(islice((entry for entry in newest if is_wanted(entry, filter)), max(limit, 0)))

    async def remove_audit(self, *, before: float, limit: int) -> int:
        self._need_open()
        old = sorted((entry.at, entry.id) for entry in self._audit if entry.at < before)
        gone = [id for _, id in old[: max(limit, 0)]]
        self._audit.remove(gone)
        return len(gone)

    async def cursor(self, consumer: str) -> int:
        self._need_open()
        return self._cursors.get(consumer, 0)

    async def move_cursor(self, consumer: str, seq: int) -> None:
        self._need_open()
        self._cursors[consumer] = max(seq, self._cursors.get(consumer, 0))

    async def remove_cursor(self, consumer: str) -> None:
        self._need_open()
        self._cursors.pop(consumer, None)

    async def remove_finished(self, *, before: float, limit: int) -> int:
        self._need_open()
        ended = sorted(
            (task.completed_at, task.id)
            for task in self._tasks.rows.values()
            if task.completed_at is not None
            and task.completed_at < before
            and task.status in TERMINAL
            and task.parent_id not in self._unfinished
            and not self._is_kept(task)
        )
        gone = [ended_id for _, ended_id in ended[: max(limit, 0)]]
        for task in map(self._tasks.rows.__getitem__, gone):
            self._counts[task.project_id, task.status] -= 1
            if task.parent_id is not None:
                self._shards[task.parent_id].remove(task.id)
                if not self._shards[task.parent_id]:
                    del self._shards[task.parent_id]
        attempts = [attempt for task_id in gone for attempt in self._attempts.pop(task_id, ())]
        self._tasks.remove(gone)
        self._executions.remove(attempts)
        self._live_executions.difference_update(attempts)
        for kind, removed in ((Task, gone), (Execution, attempts)):
            for row_id in removed:
                del self._present.versions[kind][row_id]
        self._remove_claims(set(gone), before, limit * CLAIMS_PER_TASK)
        return len(gone)

    def _is_kept(self, task: Task) -> bool:
        """Return whether a task is kept for a row that it names as its workflow."""
        for table in self._tables.values():
            term, row = table.table.keeps_tasks, table.rows.get(task.workflow_id)
            if term is not None and row is not None and meets(row, term):
                return True
        return False

    async def remove_events(self, *, before: float, limit: int) -> int:
        self._need_open()
        carried = min(self._cursors.values(), default=self._last_seq)
        end = bisect_right(self._events, carried, key=attrgetter("seq"))
        oldest = self._events[: min(max(limit, 0), end)]
        gone = {event.seq for event in oldest if event.at < before}
        self._events[: len(oldest)] = [event for event in oldest if event.seq not in gone]
        for subject in {event.subject for event in oldest if event.seq in gone}:
            kept = [event for event in self._events_of[subject] if event.seq not in gone]
            if kept:
                self._events_of[subject] = kept
            else:
                del self._events_of[subject]
        return len(gone)

    async def remove_sessions(self, *, before: float, limit: int) -> int:
        self._need_open()
        ended = sorted(
            (session.ended_at, session.id)
            for session in self._sessions.rows.values()
            if session.ended_at is not None and session.ended_at < before
        )
        gone = [ended_id for _, ended_id in ended[: max(limit, 0)]]
        self._sessions.remove(gone)
        for session_id in gone:
            del self._present.versions[Session][session_id]
            del self._present.open_sessions[session_id]
        return len(gone)

    async def remove_nodes(self, *, before: float, limit: int) -> int:
        self._need_open()
        archived = sorted(
            (node.archived_at, node.id)
            for node in self._nodes.rows.values()
            if node.archived_at is not None and node.archived_at < before
        )
        gone = [node_id for _, node_id in archived[: max(limit, 0)]]
        self._nodes.remove(gone)
        self._forget_samples(gone)
        for node_id in gone:
            del self._present.versions[Node][node_id]
        return len(gone)

    def _remove_claims(self, holders: set[str], before: float, limit: int) -> None:
        claims = self._present.claims
        endless = [
            name
            for name, claim in claims.items()
            if claim.expires_at == NEVER and claim.holder in holders
        ]
        for name in endless:
            del claims[name]
        expired = sorted(
            (claim.expires_at, name) for name, claim in claims.items() if claim.expires_at <= before
        )
        for _, name in expired[: max(limit, 0)]:
            del claims[name]

    def _need_open(self) -> None:
        if not self._opened:
            raise StoreUnavailable("the store is closed; open it first")

    def _make(self, change: Change, signed: Signed, used: UsageSums) -> Refusal | None:
        if (refusal := self._present.accept(change)) is not None:
            return refusal
        assert_usual(change, {Task: self._tasks.rows, Execution: self._executions.rows})
        for kind, rows in rows_by_kind(change):
            for row in rows:
                self._put[kind](own(row))
        for event in change.events:
            self._last_seq += 1
            numbered = own(event)
            if numbered is event:
                numbered = copy(event)
            force_setattr(numbered, "seq", self._last_seq)
            self._events.append(numbered)
            self._events_of.setdefault(event.subject, []).append(numbered)
        signed.take(change)
        used.take(change.usage)
        return None

    def _put_usage(self, used: UsageSums) -> None:
        """Add what the changes of a commit that were made come to."""
        table = self._tables[UsageHour]
        for row in used.rows():
            before = table.rows.get((row.project_id, row.at))
            table.put(row if before is None else together((before, row)))

    def _put_session(self, session: Session) -> None:
        self._sessions.put(session)
        _keep(self._live_sessions, session.id, session.ended_at is None)

    def _put_task(self, task: Task) -> None:
        before = self._tasks.rows.get(task.id)
        assert_lasting(before, task)
        if before is not None:
            self._counts[before.project_id, before.status] -= 1
        elif task.parent_id is not None:
            self._shards.setdefault(task.parent_id, []).append(task.id)
        self._counts[task.project_id, task.status] += 1
        self._tasks.put(task)
        _keep(self._unfinished, task.id, task.status not in TERMINAL)

    def _put_execution(self, execution: Execution) -> None:
        before = self._executions.rows.get(execution.id)
        if before is None:
            self._attempts.setdefault(execution.task_id, []).append(execution.id)
        assert_lasting(before, execution)
        self._executions.put(execution)
        _keep(self._live_executions, execution.id, execution.status in LIVE_EXECUTION)


def _keep(ids: set[str], id: str, wanted: bool) -> None:
    if wanted:
        ids.add(id)
    else:
        ids.discard(id)
