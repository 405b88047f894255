"""The port of the store: versioned rows, changed by small atomic changes in batches.

Every `version` works the same way: a written row carries the version that it will have, and is
accepted only if the stored one is exactly one lower (1 means "new"). So two writers can never both
succeed from the same starting point, and repeating a commit changes nothing.
"""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import msgspec

from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.change import Change as Change
from crawlfleet.model.change import Claim as Claim
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, NodeStatus, Session
from crawlfleet.model.task import ErrorClass, Execution, Shard, Task, TaskStatus
from crawlfleet.ports.history import History
from crawlfleet.ports.tables import Query, Table

S = TypeVar("S", bound=msgspec.Struct)


class RefusalKind(StrEnum):
    VERSION = "version"
    CLAIM = "claim"
    EPOCH = "epoch"
    SESSION = "session"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a change was not made: the first row that stood in its way."""

    kind: RefusalKind
    subject: str
    """Id of the row or session that did not fit, scope of the claim, or the present epoch."""
    claim: Claim | None = None
    """The live claim that was in the way."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a batch: one entry per change, in order; `None` means made."""

    refusals: tuple[Refusal | None, ...]
    last_seq: int
    """Number of this batch's last event; events are numbered in order and without a gap."""


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """The master that leads, or led last."""

    epoch: int
    leader: str
    """Name of that master; empty before any has led."""


class Lead(Protocol):
    """The right to dispatch and to run the timers, for as long as it is not lost."""

    @property
    def epoch(self) -> int:
        """Epoch of this lead: higher than any before; changes with another epoch are refused from
        now on.
        """
        ...

    async def lost(self) -> None:
        """Wait until the lead is lost, or for ever where that cannot be."""
        ...

    async def resign(self) -> None:
        """Let another master lead. May be called twice, and raises nothing."""
        ...


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on tasks to list; an empty tuple or `None` does not restrict."""

    status: tuple[TaskStatus, ...] = ()
    project_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    dead: bool | None = None
    """Selects tasks in (or not in) the dead-letter list."""
    cluster_id: str | None = None
    error_class: ErrorClass | None = None
    """Selects tasks whose last error is of this class."""
    reason: str | None = None
    """Selects tasks in the dead-letter list whose reason contains this text."""
    parent_id: str | None = None
    """Selects the shards of this task."""


class Store(History, Protocol):
    """The durable state of a fleet. Every method may raise `StoreUnavailable` and nothing else, if
    its description names nothing.

    After `commit` raised, each of its changes is either wholly there or wholly absent. Lists are in
    order of id, which is the order of creation, newest first where `newest_first`.
    """

    async def open(self) -> None:
        """Create or migrate the schema, and the default project and cluster.

        Raises `StoreTooNew` for a store that a newer program wrote.
        """
        ...

    async def close(self) -> None:
        """Finish running operations and close. May be called twice."""
        ...

    async def lead(self, leader: str) -> Lead | None:
        """Become the leader under this name; returns `None` if another master leads.

        A master that dies or falls silent loses the lead within seconds. A leader that calls again
        gets a new epoch.
        """
        ...

    async def leadership(self) -> Leadership:
        """Return the master that leads, or led last."""
        ...

    async def verify(self) -> None:
        """Raise `StoreUnavailable` if a commit now would not be kept, as far as that can be known
        at little cost; after a failed commit, by a write that changes nothing. The message says
        why, and what to do.
        """
        ...

    def changes(self) -> AsyncIterator[int]:
        """Yield the number of the newest event whenever another master has written events.

        Numbers may come too often, but none is left out, also after a break: a reader that has
        handled all events up to that number has missed none. Ends at once for a store that only one
        master can use.
        """
        ...

    async def commit(self, changes: Sequence[Change]) -> Committed:
        """Commit each change that fits, all in one durable transaction, in the order given.

        A change sees the effect of those before it in the batch. A refused change leaves no trace.
        Of existing tasks and executions, only `TASK_CHANGES` and `EXECUTION_CHANGES` are written:
        their other fields never change. Epoch, session, versions and claims are checked in this
        order. Raises `InvalidRequest`, and commits nothing, when a value cannot be stored (text
        that is not UTF-8, a huge integer). An empty commit returns the number of the newest event.
        """
        ...

    async def get(self, table: Table[S], id: str) -> S | None:
        """Return the row with that id, or `None`."""
        ...

    async def get_many(self, table: Table[S], ids: Sequence[str]) -> list[S]:
        """Return the rows that exist among `ids`, in order of id."""
        ...

    async def find(self, query: Query[S]) -> list[S]:
        """Return the rows of a query, in its order."""
        ...

    async def values(self, query: Query[Any], *fields: str) -> list[tuple[Any, ...]]:
        """Return the values of these fields of the rows of a query, in its order: two fields at
        least, of those with a column. Other fields are not loaded.
        """
        ...

    async def count(self, query: Query[Any], by: str) -> dict[Any, int]:
        """Count the rows of a query by the value of the field `by`; values without a row are left
        out. Order and limit of the query do not count.
        """
        ...

    async def remove(self, query: Query[Any]) -> int:
        """Remove the rows of a query, in its order, with the rows of other tables that they own.
        Returns how many of the query's own rows were removed.
        """
        ...

    async def node(self, id: str) -> Node | None: ...

    async def nodes(self, status: Sequence[NodeStatus] = ()) -> list[Node]:
        """Return all nodes, or those in one of the given states."""
        ...

    async def nodes_among(self, ids: Sequence[str]) -> list[Node]:
        """Return the nodes that exist among `ids`, in order of id."""
        ...

    async def session(self, id: str) -> Session | None: ...

    async def sessions_among(self, ids: Sequence[str]) -> list[Session]:
        """Return the sessions that exist among `ids`, ended ones too, in order of id."""
        ...

    async def live_sessions(self) -> list[Session]:
        """Return the sessions that have not ended, whatever their deadline."""
        ...

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        """Return the tasks that exist among `ids`, in the order of `ids`."""
        ...

    async def task_states(self, ids: Sequence[str]) -> dict[str, TaskStatus]:
        """Return the states of the tasks that exist among `ids`, without loading the tasks."""
        ...

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the projects of the tasks that exist among `ids`, by id."""
        ...

    async def find_tasks(
        self,
        filter: TaskFilter,
        *,
        after: str | None,
        limit: int,
        newest_first: bool = True,
        with_results: bool = True,
    ) -> list[Task]:
        """Return up to `limit` matching tasks beyond the id `after` in the chosen order.

        Without results, `result` is `None`: a result may be a megabyte, and lists show none.
        """
        ...

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        """Return the number of tasks in each state; states without a task are left out."""
        ...

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        """Return the number of tasks in each state for each project that has a task."""
        ...

    async def count_unfinished(self, cluster_id: str) -> dict[TaskStatus, int]:
        """Return the number of a cluster's tasks in each state that is not terminal."""
        ...

    async def shards(self, parent_id: str) -> list[Shard]:
        """Return the states of a task's shards, in order; empty if the task was not split."""
        ...

    def unfinished_tasks(self) -> AsyncIterator[list[Task]]:
        """Yield all tasks in no terminal state, in portions, oldest first."""
        ...

    async def executions(self, task_id: str) -> list[Execution]:
        """Return the attempts of a task, oldest first, which is the order of their tokens."""
        ...

    async def execution(self, id: str) -> Execution | None: ...

    async def live_executions(self, task_ids: Sequence[str] | None = None) -> list[Execution]:
        """Return all executions that hold resources of a node, or those of the tasks `task_ids`."""
        ...

    async def claim(self, scope: str, key: str) -> Claim | None:
        """Return the claim of that name that was made last, expired or not, or `None`."""
        ...

    async def events(self, *, after: int, limit: int, subject: str | None = None) -> list[Event]:
        """Return up to `limit` events with a number above `after`, in order."""
        ...

    async def audit(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> list[AuditEntry]:
        """Return up to `limit` matching entries beyond the id `after`, newest first."""
        ...

    async def cursor(self, consumer: str) -> int:
        """Return the number of the last event that a consumer has handled; 0 at first."""
        ...

    async def move_cursor(self, consumer: str, seq: int) -> None:
        """Record that a consumer has handled all events up to `seq`; never moves back."""
        ...

    async def remove_cursor(self, consumer: str) -> None:
        """Remove the cursor of a consumer that will not come back: it holds up `remove_events` no
        longer.

        May be called twice.
        """
        ...

    async def remove_finished(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` tasks that ended before then, first those that ended first.

        With them go their attempts, their claims that never expire, and all claims that had expired
        by then; a claim that still has an end stays until then. Shards stay until the task that
        they belong to has ended, and tasks of a workflow's run until the run has. Returns how many
        tasks were removed.
        """
        ...

    async def remove_events(self, *, before: float, limit: int) -> int:
        """Remove those of the `limit` first events that are older than that.

        An event stays until every cursor that there is has passed it. Returns how many were
        removed; their numbers are not given again.
        """
        ...

    async def remove_sessions(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` sessions that ended before then, first those that ended first.

        Returns how many went.
        """
        ...

    async def remove_nodes(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` nodes that were archived before then, with their samples.

        Those that were archived first go first. Returns how many went.
        """
        ...

    async def remove_audit(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` entries of the audit log from before then, oldest first.

        Returns how many went.
        """
        ...
