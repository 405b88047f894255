"""Lifecycle: the allowed transitions of tasks, executions and nodes, in one table each.

A trigger names an occurrence; the table gives the state that follows. For a transition that is not
in the table, the functions here return `None` and change nothing. Every transition of a task or a
node makes one event with both states and the cause.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, NodeStatus
from crawlfleet.model.task import Execution, ExecutionStatus, Task, TaskStatus

NO_FIELDS: Final[dict[str, Any]] = {}


class TaskTrigger(StrEnum):
    DEPENDENCIES_MET = "dependencies met"
    ASSIGNED = "assigned"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    RETURNED = "returned to the queue"
    GAVE_UP = "gave up"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    RESUMED = "resumed"
    REQUEUED = "requeued"
    SHARDS_PAUSED = "shards paused"
    SHARDS_COMPLETED = "shards completed"
    SHARDS_FAILED = "shards failed"
    REOPENED = "reopened"


class ExecutionTrigger(StrEnum):
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    STOP_ORDERED = "stop ordered"
    STOPPED = "stopped"
    RELEASED = "released"
    LOST = "lost"


class NodeTrigger(StrEnum):
    REGISTERED = "registered"
    DRAIN_ORDERED = "drain ordered"
    EMPTIED = "emptied"
    MAINTENANCE_ORDERED = "maintenance ordered"
    RESUMED = "resumed"
    SILENT = "silent"
    LEFT = "left"


_T = TaskStatus
_E = ExecutionStatus
_N = NodeStatus

TASK_TRANSITIONS: Final[Mapping[tuple[TaskStatus, TaskTrigger], TaskStatus]] = {
    (_T.WAITING, TaskTrigger.DEPENDENCIES_MET): _T.PENDING,
    (_T.WAITING, TaskTrigger.CANCELLED): _T.CANCELLED,
    (_T.WAITING, TaskTrigger.SHARDS_PAUSED): _T.PAUSED,
    (_T.WAITING, TaskTrigger.SHARDS_COMPLETED): _T.COMPLETED,
    (_T.WAITING, TaskTrigger.SHARDS_FAILED): _T.FAILED,
    (_T.PENDING, TaskTrigger.ASSIGNED): _T.ASSIGNED,
    (_T.PENDING, TaskTrigger.PAUSED): _T.PAUSED,
    (_T.PENDING, TaskTrigger.CANCELLED): _T.CANCELLED,
    (_T.ASSIGNED, TaskTrigger.STARTED): _T.PROCESSING,
    (_T.ASSIGNED, TaskTrigger.SUCCEEDED): _T.COMPLETED,
    (_T.ASSIGNED, TaskTrigger.RETURNED): _T.PENDING,
    (_T.ASSIGNED, TaskTrigger.GAVE_UP): _T.FAILED,
    (_T.ASSIGNED, TaskTrigger.TIMED_OUT): _T.TIMEOUT,
    (_T.ASSIGNED, TaskTrigger.PAUSED): _T.PAUSED,
    (_T.ASSIGNED, TaskTrigger.CANCELLED): _T.CANCELLED,
    (_T.PROCESSING, TaskTrigger.SUCCEEDED): _T.COMPLETED,
    (_T.PROCESSING, TaskTrigger.RETURNED): _T.PENDING,
    (_T.PROCESSING, TaskTrigger.GAVE_UP): _T.FAILED,
    (_T.PROCESSING, TaskTrigger.TIMED_OUT): _T.TIMEOUT,
    (_T.PROCESSING, TaskTrigger.PAUSED): _T.PAUSED,
    (_T.PROCESSING, TaskTrigger.CANCELLED): _T.CANCELLED,
    (_T.PAUSED, TaskTrigger.RESUMED): _T.PENDING,
    (_T.PAUSED, TaskTrigger.CANCELLED): _T.CANCELLED,
    (_T.PAUSED, TaskTrigger.SHARDS_FAILED): _T.FAILED,
    (_T.PAUSED, TaskTrigger.REOPENED): _T.WAITING,
    (_T.FAILED, TaskTrigger.REQUEUED): _T.PENDING,
    (_T.TIMEOUT, TaskTrigger.REQUEUED): _T.PENDING,
    (_T.CANCELLED, TaskTrigger.REQUEUED): _T.PENDING,
    (_T.FAILED, TaskTrigger.REOPENED): _T.WAITING,
    (_T.CANCELLED, TaskTrigger.REOPENED): _T.WAITING,
}

EXECUTION_TRANSITIONS: Final[Mapping[tuple[ExecutionStatus, ExecutionTrigger], ExecutionStatus]] = {
    (_E.ASSIGNED, ExecutionTrigger.STARTED): _E.RUNNING,
    (_E.ASSIGNED, ExecutionTrigger.SUCCEEDED): _E.COMPLETED,
    (_E.ASSIGNED, ExecutionTrigger.FAILED): _E.FAILED,
    (_E.ASSIGNED, ExecutionTrigger.TIMED_OUT): _E.TIMEOUT,
    (_E.ASSIGNED, ExecutionTrigger.STOP_ORDERED): _E.STOPPING,
    (_E.ASSIGNED, ExecutionTrigger.RELEASED): _E.RELEASED,
    (_E.ASSIGNED, ExecutionTrigger.LOST): _E.LOST,
    (_E.RUNNING, ExecutionTrigger.SUCCEEDED): _E.COMPLETED,
    (_E.RUNNING, ExecutionTrigger.FAILED): _E.FAILED,
    (_E.RUNNING, ExecutionTrigger.TIMED_OUT): _E.TIMEOUT,
    (_E.RUNNING, ExecutionTrigger.STOP_ORDERED): _E.STOPPING,
    (_E.RUNNING, ExecutionTrigger.RELEASED): _E.RELEASED,
    (_E.RUNNING, ExecutionTrigger.LOST): _E.LOST,
    (_E.STOPPING, ExecutionTrigger.STOPPED): _E.CANCELLED,
    (_E.STOPPING, ExecutionTrigger.LOST): _E.LOST,
}

NODE_TRANSITIONS: Final[Mapping[tuple[NodeStatus, NodeTrigger], NodeStatus]] = {
    (_N.PENDING, NodeTrigger.REGISTERED): _N.ONLINE,
    (_N.ONLINE, NodeTrigger.REGISTERED): _N.ONLINE,
    (_N.ONLINE, NodeTrigger.DRAIN_ORDERED): _N.DRAINING,
    (_N.ONLINE, NodeTrigger.MAINTENANCE_ORDERED): _N.MAINTENANCE,
    (_N.ONLINE, NodeTrigger.SILENT): _N.UNRESPONSIVE,
    (_N.ONLINE, NodeTrigger.LEFT): _N.OFFLINE,
    (_N.DRAINING, NodeTrigger.REGISTERED): _N.ONLINE,
    (_N.DRAINING, NodeTrigger.EMPTIED): _N.OFFLINE,
    (_N.DRAINING, NodeTrigger.MAINTENANCE_ORDERED): _N.MAINTENANCE,
    (_N.DRAINING, NodeTrigger.RESUMED): _N.ONLINE,
    (_N.DRAINING, NodeTrigger.SILENT): _N.UNRESPONSIVE,
    (_N.DRAINING, NodeTrigger.LEFT): _N.OFFLINE,
    (_N.MAINTENANCE, NodeTrigger.REGISTERED): _N.MAINTENANCE,
    (_N.MAINTENANCE, NodeTrigger.DRAIN_ORDERED): _N.DRAINING,
    (_N.MAINTENANCE, NodeTrigger.RESUMED): _N.ONLINE,
    (_N.MAINTENANCE, NodeTrigger.SILENT): _N.UNRESPONSIVE,
    (_N.MAINTENANCE, NodeTrigger.LEFT): _N.OFFLINE,
    (_N.UNRESPONSIVE, NodeTrigger.REGISTERED): _N.ONLINE,
    (_N.UNRESPONSIVE, NodeTrigger.LEFT): _N.OFFLINE,
    (_N.OFFLINE, NodeTrigger.REGISTERED): _N.ONLINE,
}

_TASK_EVENTS: Final = {status: f"task.{status}" for status in TaskStatus}
"""Kinds of events by the new state of a task; precomputed, since thousands are made in a second."""


def move_task(
    task: Task,
    trigger: TaskTrigger,
    *,
    now: float,
    cause: str,
    details: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[Task, Event] | None:
    """Return the task after `trigger`, with its event; `None` if not allowed."""
    return task_moved(task, trigger, now, cause, details or {}, fields)


def task_moved(
    task: Task,
    trigger: TaskTrigger,
    now: float,
    cause: str,
    details: dict[str, Any],
    fields: dict[str, Any],
) -> tuple[Task, Event] | None:
    """Move a task as `move_task` does, with the fields as a mapping: packing them anew at each call
    would cost as much as the move."""
    target = TASK_TRANSITIONS.get((task.status, trigger))
    if target is None:
        return None
    moved = msgspec.structs.replace(
        task, status=target, version=task.version + 1, updated_at=now, **fields
    )
    if task.parent_id is not None:
        # So that whoever gathers need not look up every task that ends.
        details = {**details, "parent_id": task.parent_id, "shard": task.shard}
    if task.step is not None:
        step = task.step
        details = {**details, "run_id": step.run_id, "step": step.step, "index": step.index}
    if task.callback is not None:
        # Likewise for whoever tells those who asked for it.
        details = {**details, "callback": task.callback.webhook_id}
    event = Event(
        kind=_TASK_EVENTS[target],
        subject=task.id,
        at=now,
        cause=cause,
        from_state=task.status._value_,
        to_state=target._value_,
        details=details,
        project_id=task.project_id,
    )
    return moved, event


def move_node(
    node: Node, trigger: NodeTrigger, *, now: float, cause: str, **fields: Any
) -> tuple[Node, Event] | None:
    """Return the node after `trigger`, with its event; `None` if not allowed."""
    target = NODE_TRANSITIONS.get((node.status, trigger))
    if target is None:
        return None
    moved = msgspec.structs.replace(
        node, status=target, version=node.version + 1, updated_at=now, **fields
    )
    event = Event(
        kind=f"node.{target}",
        subject=node.id,
        at=now,
        cause=cause,
        from_state=str(node.status),
        to_state=str(target),
    )
    return moved, event


def move_execution(
    execution: Execution, trigger: ExecutionTrigger, fields: dict[str, Any] = NO_FIELDS
) -> Execution | None:
    """Return the execution after `trigger`, with these fields; `None` if not allowed.

    It makes no event: those of its task name the execution, for as long as it owns the task.
    """
    target = EXECUTION_TRANSITIONS.get((execution.status, trigger))
    if target is None:
        return None
    return msgspec.structs.replace(
        execution, status=target, version=execution.version + 1, **fields
    )
