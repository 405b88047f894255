"""The only truth: a store of versioned rows, changed by small atomic changes in batches.

Every `version` works the same way: a written row carries the version that it will have, and is
accepted only if the stored one is exactly one lower (1 means "new"). So two writers can never
both succeed from the same starting point, and repeating a commit changes nothing.
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
    """Why a change was not made: the first row that stood in its way."""

    kind: RefusalKind
    subject: str
    """The id of the row or session that did not fit, the claim's scope, or the present epoch."""
    claim: Claim | None = None
    """The living claim that was in the way."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a batch: one entry per change, in order; `None` means made."""

    refusals: tuple[Refusal | None, ...]
    last_seq: int
    """The number of this batch's last event; they are numbered in order and without a gap."""


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads, or led last."""

    epoch: int
    leader: str
    """The name that it gave; empty before anybody led."""


class Lead(Protocol):
    """The right to dispatch and to watch the clock, for as long as it is not lost."""

    @property
    def epoch(self) -> int:
        """Higher than any before; changes with another epoch are refused from now on."""
        ...

    async def lost(self) -> None:
        """Wait until the lead is lost, or for ever where that cannot be."""
        ...

    async def resign(self) -> None:
        """Let somebody else lead. May be called twice, and raises nothing."""
        ...


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list; an empty tuple or `None` does not restrict."""

    status: tuple[TaskStatus, ...] = ()
    project_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    dead: bool | None = None
    """Only tasks in (or not in) the dead-letter list."""
    cluster_id: str | None = None
    error_class: ErrorClass | None = None
    """Only tasks whose last error is of this class."""
    reason: str | None = None
    """Only tasks in the dead-letter list whose reason has this text in it."""
    parent_id: str | None = None
    """Only the shards of this task."""


class Store(History, Protocol):
    """Durable state. Every method may raise `StoreUnavailable`; nothing else is expected.

    After `commit` raised, each of its changes is either wholly there or wholly absent.
    Lists are in order of id, which is the order of creation, newest first where `newest_first`.
    """

    async def open(self) -> None:
        """Create or migrate the schema, and make the default project and cluster exist.

        Raises `StoreTooNew` for a store that a newer program wrote.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun. May be called twice."""
        ...

    async def lead(self, leader: str) -> Lead | None:
        """Become the leader under this name, unless somebody else leads: then `None`.

        Whoever dies or falls silent loses the lead within seconds. Who leads already and asks
        again gets a new epoch.
        """
        ...

    async def leadership(self) -> Leadership:
        """Who leads, or led last."""
        ...

    async def verify(self) -> None:
        """Raise `StoreUnavailable` when what is committed now would not be kept, as far as that
        can be known at little cost; after a commit failed, by writing something that changes
        nothing. The message says why, and what to do."""
        ...

    def changes(self) -> AsyncIterator[int]:
        """The number of the newest event, whenever somebody else has written events.

        It may tell too often, but leaves nothing out, also after a break: a reader who has dealt
        with all events up to that number has missed none. Ends at once for a store that only one
        master can use.
        """
        ...

    async def commit(self, changes: Sequence[Change]) -> Committed:
        """Make each change that fits, all in one durable transaction, in the order given.

        A change sees the effect of those before it in the batch. A refused change leaves no trace.
        Of tasks and executions that are there, only `TASK_CHANGES` and `EXECUTION_CHANGES` are
        written: nothing else of them ever changes.
        Epoch, session, versions and claims are checked in this order. Raises `InvalidRequest`, and
        makes nothing, when a value cannot be stored (text that is not UTF-8, a huge integer).
        Committing nothing tells the number of the newest event.
        """
        ...

    async def get(self, table: Table[S], id: str) -> S | None:
        """The row with that id."""
        ...

    async def get_many(self, table: Table[S], ids: Sequence[str]) -> list[S]:
        """The rows that exist among `ids`, in order of id."""
        ...

    async def find(self, query: Query[S]) -> list[S]:
        """The rows of a query, in its order."""
        ...

    async def values(self, query: Query[Any], *fields: str) -> list[tuple[Any, ...]]:
        """The values of these fields of the rows of a query, in its order: two fields at least, of
        those with a column. What else a row holds is not loaded."""
        ...

    async def count(self, query: Query[Any], by: str) -> dict[Any, int]:
        """How many rows of a query have each value of the field `by`; values without one are left
        out. Order and limit of the query do not count."""
        ...

    async def remove(self, query: Query[Any]) -> int:
        """Remove the rows of a query, first those that come first in its order, with the rows of
        other tables that they own. Returns how many of the query's own rows went."""
        ...

    async def node(self, id: str) -> Node | None: ...

    async def nodes(self, status: Sequence[NodeStatus] = ()) -> list[Node]:
        """All nodes, or those in one of the given states."""
        ...

    async def nodes_among(self, ids: Sequence[str]) -> list[Node]:
        """The nodes that exist among `ids`, in order of id."""
        ...

    async def session(self, id: str) -> Session | None: ...

    async def sessions_among(self, ids: Sequence[str]) -> list[Session]:
        """The sessions that exist among `ids`, ended ones too, in order of id."""
        ...

    async def live_sessions(self) -> list[Session]:
        """Sessions that have not ended, whatever their deadline."""
        ...

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        """The tasks that exist among `ids`, in the order of `ids`."""
        ...

    async def task_states(self, ids: Sequence[str]) -> dict[str, TaskStatus]:
        """The states of the tasks that exist among `ids`, without loading what they hold."""
        ...

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        """The projects of the tasks that exist among `ids`."""
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
        """Up to `limit` matching tasks beyond the id `after` in the chosen order.

        Without results `result` is `None`: that of a task may be a megabyte, and lists show none.
        """
        ...

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        """How many tasks are in each state; states without a task are left out."""
        ...

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        """The same for each project that has a task."""
        ...

    async def count_unfinished(self, cluster_id: str) -> dict[TaskStatus, int]:
        """How many tasks of a cluster are in each state that is not terminal."""
        ...

    async def shards(self, parent_id: str) -> list[Shard]:
        """How the shards of a task stand, in their order; none for a task that was not split."""
        ...

    def unfinished_tasks(self) -> AsyncIterator[list[Task]]:
        """All tasks in no terminal state, in portions, oldest first."""
        ...

    async def executions(self, task_id: str) -> list[Execution]:
        """The attempts of a task, oldest first, which is the order of their tokens."""
        ...

    async def execution(self, id: str) -> Execution | None: ...

    async def live_executions(self, task_ids: Sequence[str] | None = None) -> list[Execution]:
        """All executions that hold resources of a node, or those of the tasks `task_ids`."""
        ...

    async def claim(self, scope: str, key: str) -> Claim | None:
        """The claim of that name that was made last, expired or not."""
        ...

    async def events(self, *, after: int, limit: int, subject: str | None = None) -> list[Event]:
        """Up to `limit` events with a number above `after`, in order."""
        ...

    async def audit(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> list[AuditEntry]:
        """Up to `limit` matching entries beyond the id `after`, newest first."""
        ...

    async def cursor(self, consumer: str) -> int:
        """How far a consumer of the event log has got; 0 at first."""
        ...

    async def move_cursor(self, consumer: str, seq: int) -> None:
        """Remember that a consumer has dealt with all events up to `seq`; never moves back."""
        ...

    async def remove_cursor(self, consumer: str) -> None:
        """Forget a consumer that will not come back: it holds up `remove_events` no longer.

        May be called twice.
        """
        ...

    async def remove_finished(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` tasks that ended before then, first those that ended first.

        Their attempts go with them, and so do their claims that never expire, and all claims that
        had expired by then; a claim that still has an end stays until then. Shards stay for as
        long as the task that they belong to has not ended, and tasks of a workflow's run for as
        long as the run has not. Returns how many tasks went.
        """
        ...

    async def remove_events(self, *, before: float, limit: int) -> int:
        """Remove those of the `limit` first events that are older than that.

        An event stays until every cursor that there is has passed it. Returns how many went;
        their numbers are not given again.
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
