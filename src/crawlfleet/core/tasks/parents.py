"""Life of a split task (parent): created with its shards in one step, ended by their results.

Two rules hold, ensured by the versions of rows. A parent ends once, and only after all of its
shards. A shard that is revived revives its parent in the same change; so a master that gathers the
shards meanwhile conflicts with it, and decides again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from crawlfleet.core.quality.recording import QualityRecord, in_result, signed
from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.lifecycle import TaskTrigger, move_task
from crawlfleet.core.tasks.merge import Merger
from crawlfleet.core.tasks.orders import FRESH, TaskOrder, Verb, follow, reclaimed
from crawlfleet.core.tasks.results import result_of
from crawlfleet.model.change import Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.task import (
    TERMINAL,
    ErrorClass,
    Execution,
    Shard,
    Task,
    TaskError,
    TaskStatus,
)

MAX_REASONS: Final = 5
"""Limit of failed shards whose reasons the error of their parent repeats."""
WAKING: Final = frozenset({Verb.RETRY, Verb.REQUEUE, Verb.RESUME})
"""Orders that revive a task, and its parent with it."""
_UNSUCCESSFUL: Final = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})


def split(whole: Change, parts: Sequence[msgspec.Raw], ids: Sequence[str]) -> Change:
    """Extend the change that creates a task by a shard for each part."""
    (task,) = whole.tasks
    (made,) = whole.events
    count = len(parts)
    parent = msgspec.structs.replace(task, status=TaskStatus.WAITING, shards=count)
    children = tuple(
        msgspec.structs.replace(
            task,
            id=id,
            parameters=parameters,
            parent_id=task.id,
            shard=shard,
            shards=count,
            idempotency_key=None,
            dedup_key=None,
            dedup_window_s=0.0,
            step=None,
            expectations=None,
        )
        for shard, (id, parameters) in enumerate(zip(ids, parts, strict=True))
    )
    events = [
        msgspec.structs.replace(
            made,
            kind=f"task.{parent.status}",
            to_state=str(parent.status),
            details={**made.details, "shards": count},
        )
    ]
    events += [
        msgspec.structs.replace(
            made,
            subject=child.id,
            cause=f"shard {child.shard} of {task.id}, {made.cause}",
            details={"parent_id": task.id, "shard": child.shard},
        )
        for child in children
    ]
    return msgspec.structs.replace(whole, tasks=(parent, *children), events=tuple(events))


class Gathering:
    """Gathering of the shards of a parent, one by one, which then decides how the parent ends."""

    def __init__(self, parent: Task) -> None:
        self._parent = parent
        self._merger = Merger(parent)
        self._states: Counter[TaskStatus] = Counter()
        self._failures: dict[int, str] = {}
        self._error_class = ErrorClass.ERROR
        self._started_at: float | None = None

    def take(self, child: Task) -> None:
        """Add a shard; each once, in any order."""
        self._states[child.status] += 1
        self._merger.take(child)
        if child.started_at is not None:
            self._started_at = min(child.started_at, self._started_at or child.started_at)
        if child.status in _UNSUCCESSFUL:
            error = child.error
            said = error.message if error else str(child.status)
            self._failures[child.shard or 0] = f"shard {child.shard} ({child.id}): {said}"
            self._error_class = error.error_class if error else self._error_class

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of all shards taken so far, added up."""
        return self._merger.metrics

    def data(self) -> msgspec.Raw | None:
        """Return the merged data of the shards' results."""
        return self._merger.data()

    def end(self, *, now: float, judged: QualityRecord | None = None) -> Change | None:
        """Return the change that ends the parent; `None` while a shard has not ended, or when the
        parent has ended already. `judged` is the quality of the items of all shards, if all
        completed."""
        taken = self._states.total()
        if any(status not in TERMINAL for status in self._states):
            return None
        missing = self._parent.shards - taken
        data = self._merger.data()
        error: TaskError | None = None
        if self._failures or missing > 0:
            trigger, error = TaskTrigger.SHARDS_FAILED, self._error(missing)
        elif self._states[TaskStatus.CANCELLED]:
            trigger = TaskTrigger.CANCELLED
        else:
            trigger = TaskTrigger.SHARDS_COMPLETED
        if trigger is not TaskTrigger.SHARDS_COMPLETED:
            judged = None
        elif judged is not None and judged.fails:
            trigger, error = TaskTrigger.SHARDS_FAILED, judged.error
        cause = f"its shards have ended: {counted(self._states)}"
        result = result_of(
            trigger is TaskTrigger.SHARDS_COMPLETED,
            data,
            error.message if error else None,
            self._merger.metrics,
            now,
            None if judged is None else in_result(judged),
        )
        moved = move_task(
            self._parent,
            trigger,
            now=now,
            cause=cause,
            started_at=self._started_at,
            completed_at=now,
            result=result,
            error=error,
        )
        if moved is None:
            return None
        change = Change(
            tasks=(moved[0],), events=(moved[1],), claims=attempts.closing_claims(moved[0])
        )
        return change if judged is None else signed(change, judged, now=now)

    @property
    def is_complete(self) -> bool:
        """True if all shards were taken and all of them completed."""
        return self._states == {TaskStatus.COMPLETED: self._parent.shards}

    def _error(self, missing: int) -> TaskError:
        reasons = [text for _, text in sorted(self._failures.items())]
        told = reasons[:MAX_REASONS]
        if len(reasons) > MAX_REASONS:
            told.append(f"and {len(reasons) - MAX_REASONS} more")
        if missing > 0:
            told.append(f"{missing} were removed")
        bad = len(reasons) + max(missing, 0)
        return TaskError(
            error_class=self._error_class,
            message=f"{bad} of {self._parent.shards} shards did not complete: {'; '.join(told)}",
        )


def follow_parent(
    order: TaskOrder,
    parent: Task,
    children: Sequence[Task],
    executions: Mapping[str, Execution],
    *,
    now: float,
) -> Change | None:
    """Return the change that an order about a parent makes to the parent and its shards; `None` if
    it does not fit. `children` must include all that have not completed, and `executions` those
    that own shards, by the id of the shard."""
    meant = [child for child in children if _is_meant(order.verb, child)]
    own = _own(order, parent, bool(meant), now)
    if own is None:
        return None
    changes = [own]
    for child in meant:
        change = follow(order, child, executions.get(child.id), now=now)
        if change is None and order.verb is Verb.REPRIORITISE:
            continue  # it runs, and its turn has come already
        if change is None:
            return None
        changes.append(change)
    return _joined(changes)


def with_parent(
    order: TaskOrder, change: Change, child: Task, parent: Task, *, now: float
) -> Change:
    """Return the change of a shard, extended by that of its parent: a parent waits again for a
    shard that is resumed or retried."""
    if order.verb not in WAKING or (
        parent.status is TaskStatus.WAITING and child.status not in TERMINAL
    ):
        return change
    done = "resumed" if order.verb is Verb.RESUME else "retried"
    cause = f"{done} by {order.by}: shard {child.shard}"
    reopened = _reopened(parent, now, cause)
    if reopened is None:
        # It waits, and has to be seen to have changed by whoever gathers just now.
        touched = msgspec.structs.replace(parent, version=parent.version + 1, updated_at=now)
        reopened = Change(tasks=(touched,))
    return _joined([change, reopened])


def _is_meant(verb: Verb, child: Task) -> bool:
    """Return whether an order about the parent applies to this shard too."""
    match verb:
        case Verb.RETRY:
            return child.status in TERMINAL and child.status is not TaskStatus.COMPLETED
        case Verb.RESUME:
            return child.status is TaskStatus.PAUSED
        case Verb.PAUSE:
            return child.status not in TERMINAL and child.status is not TaskStatus.PAUSED
        case _:
            return child.status not in TERMINAL


def _own(order: TaskOrder, parent: Task, has_shards: bool, now: float) -> Change | None:
    match order.verb:
        case Verb.PAUSE if not has_shards:
            return None  # there is nothing left to pause: it ends in a moment
        case Verb.PAUSE:
            moved = move_task(
                parent, TaskTrigger.SHARDS_PAUSED, now=now, cause=f"paused by {order.by}"
            )
            return None if moved is None else Change(tasks=(moved[0],), events=(moved[1],))
        case Verb.RETRY if not has_shards or parent.status is TaskStatus.PAUSED:
            return None
        case Verb.RETRY:
            return _reopened(parent, now, f"retried by {order.by}")
        case Verb.RESUME if parent.status is TaskStatus.PAUSED:
            return _reopened(parent, now, f"resumed by {order.by}")
        case Verb.RESUME:
            return None
        case _:
            return follow(order, parent, None, now=now)


def _reopened(parent: Task, now: float, cause: str) -> Change | None:
    """Return the change by which the parent waits again; it claims its dedup key, unless another
    task has it by now."""
    moved = move_task(parent, TaskTrigger.REOPENED, now=now, cause=cause, **FRESH)
    if moved is None:
        return None
    return reclaimed(parent, Change(tasks=(moved[0],), events=(moved[1],)), now)


def joined(first: Change, second: Change) -> Change:
    """Join two changes, of which the second was decided on the state after the first.

    A row that both change is written once, as the second has it.
    """
    tasks = {task.id: task for task in first.tasks}
    for task in second.tasks:
        before = tasks.get(task.id)
        if before is not None:
            task = msgspec.structs.replace(task, version=before.version)
        tasks[task.id] = task
    claims = {(claim.scope, claim.key): claim for claim in (*first.claims, *second.claims)}
    return Change(
        tasks=tuple(tasks.values()),
        executions=first.executions + second.executions,
        events=first.events + second.events,
        claims=tuple(claims.values()),
    )


def _joined(changes: Iterable[Change]) -> Change:
    """Join changes of different rows."""
    tasks: list[Task] = []
    executions: list[Execution] = []
    events: list[Event] = []
    claims: list[Claim] = []
    for change in changes:
        tasks += change.tasks
        executions += change.executions
        events += change.events
        claims += change.claims
    return Change(
        tasks=tuple(tasks),
        executions=tuple(executions),
        events=tuple(events),
        claims=tuple(claims),
    )


def counted(states: Mapping[TaskStatus, int]) -> str:
    """Return the number of shards in each state as text: `2 completed, 1 processing`."""
    order = [each for each in _ORDER if states.get(each)]
    return ", ".join(f"{states[each]} {each}" for each in order)


_ORDER: Final = (
    TaskStatus.COMPLETED,
    TaskStatus.FAILED,
    TaskStatus.TIMEOUT,
    TaskStatus.CANCELLED,
    TaskStatus.PROCESSING,
    TaskStatus.ASSIGNED,
    TaskStatus.PENDING,
    TaskStatus.PAUSED,
    TaskStatus.WAITING,
)


def waits_for(shards: Sequence[Shard]) -> str:
    """Return the state of the shards that a parent waits for, as text."""
    states = Counter(shard.status for shard in shards)
    left = sum(count for status, count in states.items() if status not in TERMINAL)
    if not left:
        return f"its {len(shards)} shards have ended ({counted(states)}), and are being gathered"
    return f"waits for {left} of its {len(shards)} shards: {counted(states)}"
