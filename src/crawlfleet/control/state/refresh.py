"""Reads rows again that another master may have changed, and puts them into the copy.

A row may change while it is read: by a commit of this master, another read, or a load of the whole
copy. Rows that changed meanwhile are read again, so that the copy never takes a step back and
nothing that has ended comes to life again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from crawlfleet.control.openings import Index
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.change import Change
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import Cluster, Project
from crawlfleet.model.task import LEASED, Execution, ExecutionStatus, Task
from crawlfleet.ports.kernel_tables import CLUSTERS, KEYS, PROJECTS
from crawlfleet.ports.store import Refusal, RefusalKind, Store
from crawlfleet.ports.system import System

if TYPE_CHECKING:
    from crawlfleet.control.state.fleet_state import FleetState

TRIES: Final = 8
OWNING: Final = frozenset({ExecutionStatus.ASSIGNED, ExecutionStatus.RUNNING})


Row = TypeVar("Row", Project, Cluster, Node, Session, ApiKey)


class ConcurrentChanges:
    """The ids of rows that have changed in the copy since a read of the store began."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.everything = False

    def has(self, id: str) -> bool:
        return self.everything or id in self.ids


class ChangeTracker:
    """Records changes of the copy for reads of the store that are under way."""

    def __init__(self) -> None:
        self._open: list[ConcurrentChanges] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    @contextmanager
    def taken(self) -> Iterator[ConcurrentChanges]:
        """Record the ids of rows that change in the copy while the block is entered."""
        meanwhile = ConcurrentChanges()
        self._open.append(meanwhile)
        try:
            yield meanwhile
        finally:
            self._open.remove(meanwhile)

    def add(self, ids: Iterable[str]) -> None:
        changed = {*ids} if self._open else set()
        for meanwhile in self._open:
            meanwhile.ids |= changed

    def add_everything(self) -> None:
        for meanwhile in self._open:
            meanwhile.everything = True


class Refresh:
    """Brings parts of the copy up to date. Every method may raise `StoreUnavailable`."""

    def __init__(
        self, *, store: Store, state: "FleetState", system: System, session_timeout_s: float
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._session_timeout_s = session_timeout_s

    async def tasks(
        self, task_ids: Iterable[str], execution_ids: Iterable[str] | None = None
    ) -> None:
        """Refresh these tasks with their live executions; those of `execution_ids` may have ended.

        Without `execution_ids`, all that the copy has of the tasks are looked at.
        """
        left = dict.fromkeys(task_ids)
        named = {*self._held(left)} if execution_ids is None else {*execution_ids}
        for _ in range(TRIES):
            if not left:
                return
            with self._state.tracker.taken() as meanwhile:
                # In this order: a task is never older than the execution that it is shown with.
                live = await self._store.live_executions([*left])
                found = {task.id: task for task in await self._store.tasks([*left])}
                await self._state.catch_up()
            by_task: dict[str, list[Execution]] = defaultdict(list)
            for execution in live:
                by_task[execution.task_id].append(execution)
            settled = [
                id
                for id in left
                if not meanwhile.has(id)
                and not any(meanwhile.has(each.id) for each in by_task[id])
                and _fits(found.get(id), by_task[id])
            ]
            ended = named - {execution.id for execution in live}
            ended = {id for id in ended if not meanwhile.has(id)}
            for id in settled:
                self._state.take_task(id, found.get(id), by_task[id], ended)
            for id in settled:
                del left[id]

    async def nodes(self, node_ids: Iterable[str]) -> None:
        """Refresh these nodes, with their present and their last known sessions."""
        left = dict.fromkeys(node_ids)
        for _ in range(TRIES):
            if not left:
                return
            with self._state.tracker.taken() as meanwhile:
                found = await self._store.nodes_among([*left])
                known = [node for id in left if (node := self._state.nodes.get(id))]
                sessions = {node.session_id for node in (*known, *found) if node.session_id}
                opened = await self._store.sessions_among(sorted(sessions))
                await self._state.catch_up()
            clean = [node for node in found if not meanwhile.has(node.id)]
            self._state.take(
                Change(
                    nodes=tuple(clean),
                    sessions=tuple(
                        self._timed(each) for each in opened if not meanwhile.has(each.id)
                    ),
                )
            )
            touched = {each.node_id for each in opened if meanwhile.has(each.id)}
            left = {id: None for id in left if meanwhile.has(id) or id in touched}

    async def sessions(self, session_ids: Sequence[str]) -> None:
        """Refresh the deadlines and ends of these sessions."""
        left = list(session_ids)
        for _ in range(TRIES):
            if not left:
                return
            with self._state.tracker.taken() as meanwhile:
                found = await self._store.sessions_among(left)
                await self._state.catch_up()
            clean = tuple(self._timed(each) for each in found if not meanwhile.has(each.id))
            self._state.take(Change(sessions=clean))
            left = [id for id in left if meanwhile.has(id)]

    async def keys(self) -> None:
        """Refresh all keys of people, programs and nodes."""
        self._state.take(Change(rows=tuple(await self._store.find(KEYS.where()))))

    async def projects(self) -> None:
        """Refresh all projects."""
        self._state.take(Change(rows=tuple(await self._store.find(PROJECTS.where()))))

    async def clusters(self) -> None:
        """Refresh all clusters."""
        self._state.take(Change(rows=tuple(await self._store.find(CLUSTERS.where()))))

    async def index(self, index: Index, ids: Sequence[str]) -> None:
        """Refresh these rows of a feature."""
        if ids:
            self._state.take(Change(rows=tuple(await index.read(ids))))

    async def refused(self, changes: Sequence[Change], refusals: Sequence[Refusal | None]) -> None:
        """Refresh the rows of changes that were refused because another commit came first."""
        behind = [
            (change, refusal)
            for change, refusal in zip(changes, refusals, strict=True)
            if refusal and refusal.kind in (RefusalKind.VERSION, RefusalKind.SESSION)
        ]
        if not behind:
            return
        tasks: dict[str, None] = {}
        executions: dict[str, None] = {}
        nodes: dict[str, None] = {}
        for change, refusal in behind:
            tasks.update((task.id, None) for task in change.tasks)
            tasks.update((each.task_id, None) for each in change.executions)
            executions.update((each.id, None) for each in change.executions)
            nodes.update((node.id, None) for node in change.nodes)
            nodes.update((each.node_id, None) for each in change.sessions)
            session = self._state.sessions.get(change.under or "")
            if refusal.kind is RefusalKind.SESSION and session is not None:
                nodes[session.node_id] = None
        if any(change.of(ApiKey) for change, _ in behind):
            await self.keys()
        if any(change.of(Project) for change, _ in behind):
            await self.projects()
        if any(change.of(Cluster) for change, _ in behind):
            await self.clusters()
        for index in self._state.indexes:
            await self.index(index, [id for change, _ in behind for id in index.ids_of(change)])
        await self.nodes(nodes)
        await self.tasks(tasks, executions)

    def timed(self, sessions: Iterable[Session], known: Mapping[str, Session]) -> list[Session]:
        """Return sessions as stored, with a deadline on this master's clock.

        The stored deadline is on the clock of the master that wrote it, which may be wrong by more
        than the timeout. A session that has moved since the last read was alive until now, and
        lasts for the timeout that its node was sent.
        """
        return [self._timed(session, known) for session in sessions]

    def _timed(self, session: Session, known: Mapping[str, Session] | None = None) -> Session:
        if session.ended_at is not None:
            return session
        before = (self._state.sessions if known is None else known).get(session.id)
        if before is not None and before.version == session.version:
            return before
        deadline = self._system.now() + (session.timeout_s or self._session_timeout_s)
        return msgspec.structs.replace(session, deadline=deadline)

    def _held(self, task_ids: Mapping[str, None]) -> Iterable[str]:
        leases = self._state.leases.items()
        return (id for id, lease in leases if lease.execution.task_id in task_ids)


def _fits(task: Task | None, live: Sequence[Execution]) -> bool:
    """Return whether a task and its live executions are of one moment."""
    owners = [each.id for each in live if each.status in OWNING]
    if task is None:
        return not live
    return owners == ([task.execution_id] if task.status in LEASED else [])


def lease_of(task: Task, execution: Execution, known: Lease | None) -> Lease:
    """Return a lease of the execution with the newest known state of its task."""
    if known is not None and known.task.version > task.version:
        return Lease(known.task, execution)
    return Lease(task, execution)


def is_newer(row: Row, known: Row | None) -> bool:
    """Return whether a row is newer than the one in the copy."""
    return known is None or row.version > known.version


def ids_of(change: Change) -> Iterator[str]:
    """Yield the ids of a change's nodes, sessions, tasks and executions."""
    for node in change.nodes:
        yield node.id
    for session in change.sessions:
        yield session.id
    for task in change.tasks:
        yield task.id
    for execution in change.executions:
        yield execution.id
