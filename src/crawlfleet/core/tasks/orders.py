"""Orders of people about tasks, and the change that each order makes.

An order may be repeated: a task that is already as ordered is left alone. An order that does not
fit the task's state changes nothing either, and the caller gets that state in the answer.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.lifecycle import TaskTrigger, move_task
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.task import LEASED, TERMINAL, Execution, Task, TaskStatus


class Verb(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    REPRIORITISE = "reprioritise"
    REQUEUE = "requeue"
    """Retry of a task in the dead-letter list."""
    DISCARD = "discard"
    """Removal of a task from the dead-letter list; its state stays."""


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order to change a task, with the person who gave it."""

    verb: Verb
    by: str
    priority: int | None = None
    """New priority, for `reprioritise`."""
    project_id: str | None = None
    """The one project that the caller may see; all projects when not set."""


_LEADS_TO: Final = {
    Verb.CANCEL: TaskStatus.CANCELLED,
    Verb.PAUSE: TaskStatus.PAUSED,
    Verb.RESUME: TaskStatus.PENDING,
    Verb.RETRY: TaskStatus.PENDING,
    Verb.REQUEUE: TaskStatus.PENDING,
}
FRESH: Final[dict[str, Any]] = {
    "retry_count": 0,
    "loss_count": 0,
    "not_before": 0.0,
    "completed_at": None,
    "result": None,
    "error": None,
    "dead_reason": None,
    "assigned_node": None,
    "assigned_at": None,
    "execution_id": None,
    "started_at": None,
}
"""Fields of a task that starts again, with their values."""


def is_fulfilled(order: TaskOrder, task: Task) -> bool:
    """Return whether the task is already as ordered."""
    if order.verb is Verb.REPRIORITISE:
        return task.priority == order.priority
    if order.verb is Verb.DISCARD:
        return task.status in TERMINAL and task.dead_reason is None
    target = _LEADS_TO[order.verb]
    if target is TaskStatus.PENDING and task.is_parent:
        target = TaskStatus.WAITING
    return task.status is target


def follow(
    order: TaskOrder, task: Task, execution: Execution | None, *, now: float
) -> Change | None:
    """Return the change that an order makes; `None` when it does not fit the task's state.

    `execution` is the attempt that owns the task, if one does.
    """
    match order.verb:
        case Verb.CANCEL:
            cause = f"{TaskTrigger.CANCELLED} by {order.by}"
            return attempts.withdraw(task, execution, TaskTrigger.CANCELLED, now=now, cause=cause)
        case Verb.PAUSE:
            cause = f"{TaskTrigger.PAUSED} by {order.by}"
            return attempts.withdraw(task, execution, TaskTrigger.PAUSED, now=now, cause=cause)
        case Verb.RESUME:
            ready = {"not_before": 0.0} if task.is_held else {}
            return _moved(task, TaskTrigger.RESUMED, now, f"resumed by {order.by}", **ready)
        case Verb.RETRY:
            return _retried(task, now, f"retried by {order.by}")
        case Verb.REPRIORITISE:
            return _reprioritised(order, task, now)
        case Verb.REQUEUE:
            if task.dead_reason is None:
                return None
            return _retried(task, now, f"retried by {order.by}, from the dead letters")
        case Verb.DISCARD:
            return _discarded(task, now, f"discarded by {order.by}")


def _retried(task: Task, now: float, cause: str) -> Change | None:
    """Return the change that requeues a task with fresh counters; the task claims its dedup key
    again, unless another task has it by now. `None` when the task's state does not allow it."""
    change = _moved(task, TaskTrigger.REQUEUED, now, cause, **FRESH)
    return None if change is None else reclaimed(task, change, now)


def reclaimed(task: Task, change: Change, now: float) -> Change:
    """Extend a change that revives a task by the claim of its dedup key."""
    if task.dedup_key is None or task.status not in TERMINAL:
        return change
    claim = Claim(
        scope=attempts.dedup_scope(task.project_id),
        key=task.dedup_key,
        holder=task.id,
        at=now,
        expires_at=NEVER,
    )
    return msgspec.structs.replace(change, claims=(claim,))


def _reprioritised(order: TaskOrder, task: Task, now: float) -> Change | None:
    if order.priority is None or task.status in TERMINAL or task.status in LEASED:
        return None
    event = Event(
        kind="task.reprioritised",
        subject=task.id,
        at=now,
        cause=f"reprioritised by {order.by}",
        details={"from": task.priority, "to": order.priority},
        project_id=task.project_id,
    )
    changed = msgspec.structs.replace(
        task, priority=order.priority, version=task.version + 1, updated_at=now
    )
    return Change(tasks=(changed,), events=(event,))


def _discarded(task: Task, now: float, cause: str) -> Change | None:
    if task.dead_reason is None:
        return None
    event = Event(
        kind="task.discarded",
        subject=task.id,
        at=now,
        cause=cause,
        details={"reason": task.dead_reason},
        project_id=task.project_id,
    )
    changed = msgspec.structs.replace(
        task, dead_reason=None, version=task.version + 1, updated_at=now
    )
    return Change(tasks=(changed,), events=(event,))


def _moved(
    task: Task, trigger: TaskTrigger, now: float, cause: str, **fields: Any
) -> Change | None:
    moved = move_task(task, trigger, now=now, cause=cause, **fields)
    return None if moved is None else Change(tasks=(moved[0],), events=(moved[1],))
