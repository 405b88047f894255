"""Carries out orders about tasks: one by its id, or thousands, in a few commits.

All go the same way: read the tasks from the store, decide on each, commit the changes as one batch,
and decide anew where another commit came first. Thousands go in portions, so that neither the event
loop nor the store is held up for long; each portion is durable by itself.

The changes of a batch to one family (a parent and its shards) are joined to one: an order about the
second shard of a parent finds the parent as the first has left it, and neither is committed without
the other. As separate changes, the second could be based on a state that the first was refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import expect_version
from crawlfleet.core.tasks import parents as shards
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.core.tasks.orders import TaskOrder, Verb, follow, is_fulfilled
from crawlfleet.core.tasks.rendezvous import MAX_SHARDS
from crawlfleet.errors import (
    Conflict,
    CrawlfleetError,
    FieldProblem,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
)
from crawlfleet.model.change import Change
from crawlfleet.model.task import LEASED, MAX_PRIORITY, MIN_PRIORITY, Task, TaskStatus
from crawlfleet.ports.store import Refusal, Store, TaskFilter
from crawlfleet.ports.system import System

PORTION: Final = 500
NOT_COMPLETED: Final = tuple(each for each in TaskStatus if each is not TaskStatus.COMPLETED)


class TaskFamilies:
    """Tasks as stored, and as they are after the changes that were decided on."""

    def __init__(self, tasks: Iterable[Task], lease_of: Callable[[Task], Lease | None]) -> None:
        self._lease_of = lease_of
        self._stored = {task.id: task for task in tasks}
        self._changed: dict[str, Task] = {}
        self._shards: dict[str, list[str]] = {}
        self._places: dict[str, int] = {}
        """Index of each family's change in the batch."""
        self.others: list[str] = []
        """Ids of the tasks here that the order does not name."""

    @property
    def parents(self) -> list[str]:
        """The tasks among them that were split."""
        return [task.id for task in self._stored.values() if task.is_parent]

    def missing_parents(self, order: TaskOrder) -> list[str]:
        """Return parents to read as well: the order brings shards of theirs back to life."""
        if order.verb not in shards.WAKING:
            return []
        named = (task.parent_id for task in self._stored.values())
        return [*dict.fromkeys(id for id in named if id and id not in self._stored)]

    def add(self, tasks: Iterable[Task]) -> None:
        """Add shards and parents of the named tasks, or newer states of these."""
        for task in tasks:
            if task.id not in self._stored:
                self.others.append(task.id)
            self._stored[task.id] = task
            if task.parent_id is not None:
                self._shards.setdefault(task.parent_id, []).append(task.id)

    def get(self, id: str) -> Task | None:
        """Return the task as it will be after the changes so far; `None` when there is none."""
        return self._changed.get(id) or self._stored.get(id)

    def is_stored(self, task: Task) -> bool:
        """Return whether the task is stored like this, not only in a change to be committed."""
        return task.id not in self._changed

    def lags(self, task: Task) -> bool:
        """Return whether memory lacks the lease of a task that the store shows as assigned."""
        concerned = [task, *self._shards_of(task)]
        return any(each.status in LEASED and self._lease_of(each) is None for each in concerned)

    def follow(self, order: TaskOrder, task: Task, changes: list[Change], *, now: float) -> bool:
        """Add the order's change of a task to the batch; `False` if it does not fit the task."""
        change = self._followed(order, task, now)
        if change is None:
            return False
        if not task.shards:
            changes.append(change)
            return True
        place = self._places.setdefault(task.parent_id or task.id, len(changes))
        if place == len(changes):
            changes.append(change)
        else:
            changes[place] = change = shards.joined(changes[place], change)
        self._changed.update((each.id, each) for each in change.tasks)
        return True

    def _followed(self, order: TaskOrder, task: Task, now: float) -> Change | None:
        """Return the change of the task and its family; `None` if the order does not fit."""
        if task.is_parent:
            children = self._shards_of(task)
            leases = [(child.id, self._lease_of(child)) for child in children]
            executions = {id: lease.execution for id, lease in leases if lease is not None}
            return shards.follow_parent(order, task, children, executions, now=now)
        lease = self._lease_of(task)
        change = follow(order, task, lease.execution if lease else None, now=now)
        parent = self.get(task.parent_id) if task.parent_id else None
        if change is None or parent is None:
            return change
        return shards.with_parent(order, change, task, parent, now=now)

    def _shards_of(self, task: Task) -> list[Task]:
        found = (self.get(id) for id in self._shards.get(task.id, ()))
        return [child for child in found if child is not None]


class OrderOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of an order for one task: the task as it is now, or why the order was refused."""

    task_id: str
    task: Task | None = None
    changed: bool = False
    refusal: CrawlfleetError | None = None


class TaskOrders:
    """Carries out orders of people about tasks."""

    def __init__(self, *, store: Store, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system

    async def carry_out_one(
        self, order: TaskOrder, task_id: str, *, if_version: int | None = None
    ) -> Task:
        """Carry out an order about one task and return the task.

        With `if_version`, only if the task has that version, or is as ordered already; raises
        `PreconditionFailed` otherwise. Raises `NotFound`, `Conflict` or `InvalidRequest`.
        """
        _check(order)
        (outcome,) = await self._carry_out(order, [task_id], if_version)
        if outcome.task is None:
            assert outcome.refusal is not None
            raise outcome.refusal
        return outcome.task

    async def carry_out(self, order: TaskOrder, task_ids: Sequence[str]) -> list[OrderOutcome]:
        """Carry out an order about tasks; returns an outcome for each different id, in order.
        Raises `InvalidRequest` for all of them.
        """
        _check(order)
        outcomes: list[OrderOutcome] = []
        for portion in _portions(dict.fromkeys(task_ids)):
            outcomes += await self._carry_out(order, portion)
        return outcomes

    async def carry_out_where(
        self, order: TaskOrder, filter: TaskFilter, *, after: str | None, limit: int
    ) -> tuple[list[OrderOutcome], str | None]:
        """Carry out an order about up to `limit` matching tasks, oldest first; returns the
        outcomes, and where the other tasks begin.
        """
        _check(order)
        outcomes: list[OrderOutcome] = []
        while len(outcomes) < limit:
            size = min(limit - len(outcomes), PORTION)
            found = await self._store.find_tasks(
                filter, after=after, limit=size, newest_first=False
            )
            outcomes += await self._carry_out(order, [task.id for task in found])
            if len(found) < size:
                return outcomes, None
            after = found[-1].id
        return outcomes, after

    async def _carry_out(
        self, order: TaskOrder, task_ids: Sequence[str], if_version: int | None = None
    ) -> list[OrderOutcome]:
        outcomes: dict[str, OrderOutcome] = {}
        undecided = [*task_ids]
        behind: list[str] = []

        async def decide() -> Sequence[Change]:
            if behind:
                await self._state.refresh.tasks(behind)
            families = await self._families(order, undecided)
            settled, changes = self._decide(order, undecided, if_version, families)
            outcomes.update((outcome.task_id, outcome) for outcome in settled)
            behind[:] = families.others
            return changes

        def is_settled(changes: Sequence[Change], refusals: Sequence[Refusal | None]) -> bool:
            made = map(_outcome, [order] * len(changes), changes, refusals)
            outcomes.update((outcome.task_id, outcome) for outcome in made if outcome)
            for change, refusal in zip(changes, refusals, strict=True):
                if len(change.tasks) > 1:
                    for outcome in _seen_to(order, change, refusal, undecided):
                        outcomes.setdefault(outcome.task_id, outcome)
            undecided[:] = [id for id in undecided if id not in outcomes]
            behind[:0] = undecided
            return not undecided

        await self._state.decide_batch(decide, is_settled=is_settled)
        for id in undecided:
            hasty = Conflict(f"{id} is changing too quickly; try again")
            outcomes[id] = OrderOutcome(task_id=id, refusal=hasty)
        return [outcomes[id] for id in task_ids]

    def _decide(
        self,
        order: TaskOrder,
        task_ids: Sequence[str],
        if_version: int | None,
        families: TaskFamilies,
    ) -> tuple[list[OrderOutcome], list[Change]]:
        """Return outcomes that need no change, and the changes. Tasks whose leases memory lacks get
        neither, and nor do those that another change of the batch covers, until it is committed.
        """
        settled: list[OrderOutcome] = []
        changes: list[Change] = []
        now = self._system.now()
        for id in task_ids:
            task = families.get(id)
            if task is None or order.project_id not in (None, task.project_id):
                settled.append(OrderOutcome(task_id=id, refusal=NotFound("task", id)))
            elif is_fulfilled(order, task):
                if families.is_stored(task):
                    settled.append(OrderOutcome(task_id=id, task=task))
            elif stale := _stale(task, if_version):
                settled.append(OrderOutcome(task_id=id, refusal=stale))
            elif families.lags(task):
                continue  # the store tells of an assignment that memory does not know yet
            elif not families.follow(order, task, changes, now=now) and families.is_stored(task):
                unfit = Conflict(f"cannot {order.verb} {id}: it is {_described(order, task)}")
                settled.append(OrderOutcome(task_id=id, refusal=unfit))
        return settled, changes

    async def _families(self, order: TaskOrder, task_ids: Sequence[str]) -> TaskFamilies:
        """Read the tasks of an order, with the parents and shards that it affects."""
        families = TaskFamilies(await self._store.tasks(task_ids), self._state.lease_of)
        for parent_id in families.parents:
            # Those that have completed stay as they are, and their results may be large.
            concerned = TaskFilter(parent_id=parent_id, status=NOT_COMPLETED)
            families.add(await self._store.find_tasks(concerned, after=None, limit=MAX_SHARDS))
        if missing := families.missing_parents(order):
            families.add(await self._store.tasks(missing))
        return families


def _stale(task: Task, if_version: int | None) -> PreconditionFailed | None:
    try:
        expect_version(task.id, task.version, if_version)
    except PreconditionFailed as error:
        return error
    return None


def _outcome(order: TaskOrder, change: Change, refusal: Refusal | None) -> OrderOutcome | None:
    """Return the outcome of a change; `None` when another commit came first."""
    return _outcome_of(change.tasks[0], order, refusal)


def _outcome_of(task: Task, order: TaskOrder, refusal: Refusal | None) -> OrderOutcome | None:
    if refusal is None:
        return OrderOutcome(task_id=task.id, task=task, changed=True)
    if refusal.claim is None:
        return None
    taken = f"its dedup_key now belongs to {refusal.claim.holder}"
    return OrderOutcome(
        task_id=task.id, refusal=Conflict(f"cannot {order.verb} {task.id}: {taken}")
    )


def _seen_to(
    order: TaskOrder, change: Change, refusal: Refusal | None, wanted: Sequence[str]
) -> Iterator[OrderOutcome]:
    """Yield the outcomes of ordered tasks that the change of another task covers."""
    for task in change.tasks[1:]:
        if is_fulfilled(order, task) and task.id in wanted:
            outcome = _outcome_of(task, order, refusal)
            if outcome is not None:
                yield outcome


def _described(order: TaskOrder, task: Task) -> str:
    about_dead = order.verb in {Verb.REQUEUE, Verb.DISCARD}
    return f"{task.status}, not a dead letter" if about_dead else str(task.status)


def _check(order: TaskOrder) -> None:
    if order.verb is not Verb.REPRIORITISE:
        return
    if order.priority is None or not MIN_PRIORITY <= order.priority <= MAX_PRIORITY:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="priority",
                    value=order.priority,
                    message="is out of range",
                    remedy=f"use a number from {MIN_PRIORITY} to {MAX_PRIORITY}",
                )
            ]
        )


def _portions(ids: dict[str, None]) -> Iterator[list[str]]:
    rest = iter(ids)
    while portion := [*islice(rest, PORTION)]:
        yield portion
