"""Life of a lease: each function returns the `Change` of one occurrence in an attempt's life.

While a task is `assigned` or `processing`, exactly one execution owns it: the one whose token is
the task's. Reports of other executions are stale and change nothing. An execution that was ordered
to stop keeps its node's resources until the node confirms the stop, or is lost; the task itself is
free at once.
"""

from typing import Any, Final

import msgspec

from crawlfleet.core.quality.recording import (
    NOT_AS_EXPECTED,
    QualityRecord,
    in_result,
    signed,
)
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.core.tasks.lifecycle import (
    NO_FIELDS,
    ExecutionTrigger,
    TaskTrigger,
    move_execution,
    move_task,
    task_moved,
)
from crawlfleet.core.tasks.recovery import GiveUpTask, after_failure, first_failure
from crawlfleet.core.tasks.results import result_of
from crawlfleet.model.change import Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import (
    HELD,
    TERMINAL,
    ErrorClass,
    Execution,
    Task,
    TaskError,
)


def assign(
    task: Task,
    *,
    node_id: str,
    session_id: str,
    execution_id: str,
    reserved: Resources,
    allocation: Resources,
    now: float,
    cause: str,
) -> Change | None:
    """Assign the task to a node under the next token; `None` when the task cannot be assigned.

    The change is committed only if the node's session has not ended.
    """
    token = task.token + 1
    moved = task_moved(
        task,
        TaskTrigger.ASSIGNED,
        now,
        cause,
        {"node_id": node_id, "execution_id": execution_id, "token": token},
        {
            "token": token,
            "assigned_node": node_id,
            "assigned_at": now,
            "execution_id": execution_id,
            "started_at": None,
        },
    )
    if moved is None:
        return None
    execution = Execution(
        id=execution_id,
        task_id=task.id,
        node_id=node_id,
        session_id=session_id,
        token=token,
        start_time=now,
        reserved=reserved,
        allocation=allocation,
        retry_count=task.retry_count,
    )
    return Change(
        tasks=(moved[0],),
        executions=(execution,),
        events=(moved[1],),
        under=session_id,
        usual=task.started_at is None,
    )


def start(lease: Lease, *, now: float, under: str | None = None) -> Change | None:
    """Record that the executor has started; `None` when that is recorded already, or stale.

    Here and below, `under` is the reporting session: the change is committed only if it has not
    ended.
    """
    if not lease.owns:
        return None
    task = _move(lease, TaskTrigger.STARTED, now, "the executor has begun", {"started_at": now})
    if task is None:
        return None
    return _both(lease, task, ExecutionTrigger.STARTED, under, {"running_at": now}, usual=True)


def begun_at(lease: Lease, ran_s: float | None, *, now: float) -> float | None:
    """Return when the work began: the recorded time, or one computed from the running time that the
    node reports with the end.

    No state was stored in between, so only the time is left to record.
    """
    if lease.execution.running_at is not None or ran_s is None:
        return lease.execution.running_at
    return min(max(now - ran_s, lease.execution.start_time), now)


def begun(lease: Lease, at: float | None) -> Lease:
    """Return the lease as if its start had been reported, for work that ended before that
    report."""
    if lease.execution.running_at == at:
        return lease
    return Lease(
        msgspec.structs.replace(lease.task, started_at=at),
        msgspec.structs.replace(lease.execution, running_at=at),
    )


def succeed(
    lease: Lease,
    data: msgspec.Raw,
    metrics: dict[str, float],
    *,
    now: float,
    begun_at: float | None = None,
    under: str | None = None,
    judged: QualityRecord | None = None,
) -> Change | None:
    """Record the result of completed work; `None` when it is stale.

    `judged` adds the quality of its items, because of which the task may have failed.
    """
    if not lease.owns:
        return None
    running_at = lease.execution.running_at if begun_at is None else begun_at
    done_at = lease.execution.end_time or now
    took_s = max(done_at - (running_at or lease.execution.start_time), 0.0)
    measured = {**metrics, "processing_time": round(took_s, 6)}
    failed = judged is not None and judged.fails
    error = judged.error if judged is not None and failed else None
    told = None if error is None else error.message
    quality = None if judged is None else in_result(judged)
    fields: dict[str, Any] = {
        "started_at": running_at,
        "completed_at": now,
        "result": result_of(not failed, data, told, measured, now, quality),
        "error": error,
    }
    if failed:
        fields["dead_reason"] = NOT_AS_EXPECTED
    task = _move(
        lease,
        TaskTrigger.GAVE_UP if failed else TaskTrigger.SUCCEEDED,
        now,
        told or "the executor has finished",
        fields,
    )
    if task is None:
        return None
    change = _both(
        lease,
        task,
        # Without an error of its own: the node has done nothing wrong.
        ExecutionTrigger.FAILED if failed else ExecutionTrigger.SUCCEEDED,
        under,
        {"running_at": running_at, "end_time": done_at, "metrics": measured},
        # An error of an earlier attempt goes with success: that is more than usually changes.
        usual=judged is None and lease.task.error is None,
    )
    return change if judged is None or change is None else signed(change, judged, now=now)


def fail(
    lease: Lease,
    error: TaskError,
    metrics: dict[str, float],
    limits: RecoverySettings,
    *,
    now: float,
    chance: float,
    under: str | None = None,
) -> Change | None:
    """Record a failed attempt: the task is retried or ends; `None` when it is stale.

    An attempt is lost when its node is gone, so an execution that was stopping ends here too.
    """
    lost = error.error_class is ErrorClass.LOST
    trigger = _FAILURES.get(error.error_class, ExecutionTrigger.FAILED)
    if not lease.owns:
        if not lost:
            return None
        ended = move_execution(lease.execution, trigger, {"end_time": now, "error": error})
        return None if ended is None else _ended(lease, ended, now, error.message, under)
    task = _recovered(lease, error, metrics, limits, now=now, chance=chance)
    if task is None:
        return None
    fields = {"end_time": now, "error": error, "metrics": metrics}
    return _both(lease, task, trigger, under, fields)


def finish(lease: Lease, *, now: float, under: str | None = None) -> Change | None:
    """Record that the work is done while its items are still being measured: no time limit counts
    from now on.

    `None` when that is recorded already, or stale.
    """
    if not lease.owns or lease.execution.end_time is not None:
        return None
    execution = lease.execution
    finished = msgspec.structs.replace(execution, end_time=now, version=execution.version + 1)
    event = Event(
        kind="execution.finished",
        subject=finished.id,
        at=now,
        cause="its items are being measured",
        details={"task_id": finished.task_id, "node_id": finished.node_id},
    )
    return Change(executions=(finished,), events=(event,), under=under)


def overrun(lease: Lease, limits: RecoverySettings, *, now: float, chance: float) -> Change | None:
    """End an attempt whose node did not enforce the time limit: take the task away and order the
    attempt to stop.

    `None` when it is stale, or has finished.
    """
    if not lease.owns or lease.execution.end_time is not None:
        return None
    error = TaskError(
        error_class=ErrorClass.TIMEOUT,
        message=f"still running {limits.timeout_grace_s:g} s after its time limit",
    )
    task = _recovered(lease, error, {}, limits, now=now, chance=chance)
    if task is None:
        return None
    return _both(lease, task, ExecutionTrigger.STOP_ORDERED, None, {"error": error})


def release(lease: Lease, *, now: float, cause: str, under: str | None = None) -> Change | None:
    """Return the task from its node to the queue, at no cost in attempts; `None` when it is
    stale."""
    if not lease.owns:
        return None
    task = _move(lease, TaskTrigger.RETURNED, now, cause, _UNASSIGNED)
    if task is None:
        return None
    return _both(lease, task, ExecutionTrigger.RELEASED, under, {"end_time": now})


def recall(lease: Lease, *, now: float, cause: str) -> Change | None:
    """Take the task back to the queue, and order the attempt to stop, at no cost in attempts.

    `None` when the attempt does not own it.
    """
    if not lease.owns:
        return None
    task = _move(lease, TaskTrigger.RETURNED, now, cause, _UNASSIGNED)
    if task is None:
        return None
    return _both(lease, task, ExecutionTrigger.STOP_ORDERED, None, NO_FIELDS)


def held(task: Task, is_held: bool, *, now: float) -> Task | None:
    """Return a running task paused in place or resumed; `None` when it is like that already.

    If the node of a held task is lost, the task stays paused.
    """
    if task.is_held is is_held:
        return None
    return msgspec.structs.replace(
        task, not_before=HELD if is_held else 0.0, version=task.version + 1, updated_at=now
    )


def confirm_stop(lease: Lease, *, now: float, under: str | None = None) -> Change | None:
    """Record that the node has stopped an attempt; `None` when it had no order to."""
    ended = move_execution(lease.execution, ExecutionTrigger.STOPPED, {"end_time": now})
    return None if ended is None else _ended(lease, ended, now, "its node has stopped it", under)


def withdraw(
    task: Task, execution: Execution | None, trigger: TaskTrigger, *, now: float, cause: str
) -> Change | None:
    """Cancel or pause a task by order; its execution is ordered to stop. `None` if not allowed."""
    ended_at = now if trigger is TaskTrigger.CANCELLED else None
    moved = move_task(task, trigger, now=now, cause=cause, completed_at=ended_at, **_UNASSIGNED)
    if moved is None:
        return None
    stopping = execution and move_execution(execution, ExecutionTrigger.STOP_ORDERED)
    return Change(
        tasks=(moved[0],),
        executions=(stopping,) if stopping else (),
        events=(moved[1],),
        claims=closing_claims(moved[0]),
    )


def closing_claims(task: Task) -> tuple[Claim, ...]:
    """Return the claim of a task's dedup key after the task has ended: it lasts for the dedup
    window. Empty for a task without such a key, or one that has not ended."""
    if task.dedup_key is None or task.status not in TERMINAL:
        return ()
    return (
        Claim(
            scope=dedup_scope(task.project_id),
            key=task.dedup_key,
            holder=task.id,
            at=task.updated_at,
            expires_at=task.updated_at + task.dedup_window_s,
        ),
    )


def dedup_scope(project_id: str) -> str:
    """Return the scope in which the dedup keys of a project are claimed."""
    return f"dedup:{project_id}"


_FAILURES: Final = {
    ErrorClass.LOST: ExecutionTrigger.LOST,
    ErrorClass.TIMEOUT: ExecutionTrigger.TIMED_OUT,
}
_UNASSIGNED: Final[dict[str, Any]] = {
    "assigned_node": None,
    "execution_id": None,
    "started_at": None,
}


def _recovered(
    lease: Lease,
    error: TaskError,
    metrics: dict[str, float],
    limits: RecoverySettings,
    *,
    now: float,
    chance: float,
) -> tuple[Task, Event] | None:
    verdict = after_failure(lease.task, error, limits, now=now, chance=chance)
    if lease.task.retry_policy.max_total_s is not None:
        error = msgspec.structs.replace(error, first_at=first_failure(lease.task, now))
    counters = {"retry_count": verdict.retry_count, "loss_count": verdict.loss_count}
    if isinstance(verdict, GiveUpTask):
        timed_out = error.error_class is ErrorClass.TIMEOUT
        return _move(
            lease,
            TaskTrigger.TIMED_OUT if timed_out else TaskTrigger.GAVE_UP,
            now,
            f"{error.message}; {verdict.reason}",
            {
                "completed_at": now,
                "result": result_of(False, None, error.message, metrics, now),
                "error": error,
                "dead_reason": verdict.reason,
                **counters,
            },
        )
    return _move(
        lease,
        TaskTrigger.RETURNED,
        now,
        f"{error.error_class}: {error.message}",
        {"not_before": verdict.at, "error": error, **_UNASSIGNED, **counters},
    )


def _move(
    lease: Lease, trigger: TaskTrigger, now: float, cause: str, fields: dict[str, Any]
) -> tuple[Task, Event] | None:
    details = {"node_id": lease.execution.node_id, "execution_id": lease.execution.id}
    if trigger is TaskTrigger.RETURNED and lease.task.is_held:
        trigger, cause = TaskTrigger.PAUSED, f"{cause}; it stays paused"
        fields = {**fields, "not_before": 0.0}
    return task_moved(lease.task, trigger, now, cause, details, fields)


def _both(
    lease: Lease,
    moved: tuple[Task, Event],
    trigger: ExecutionTrigger,
    under: str | None,
    fields: dict[str, Any],
    *,
    usual: bool = False,
) -> Change | None:
    execution = move_execution(lease.execution, trigger, fields)
    if execution is None:
        return None
    task, event = moved
    return Change(
        tasks=(task,),
        executions=(execution,),
        events=(event,),
        claims=closing_claims(task),
        under=under,
        usual=usual,
    )


def _ended(lease: Lease, ended: Execution, now: float, cause: str, under: str | None) -> Change:
    """Return the end of an execution that lost its task before, with an event of its own, since no
    task event mentions it."""
    event = Event(
        kind=f"execution.{ended.status}",
        subject=ended.id,
        at=now,
        cause=cause,
        from_state=str(lease.execution.status),
        to_state=str(ended.status),
        details={"task_id": ended.task_id, "node_id": ended.node_id},
    )
    return Change(executions=(ended,), events=(event,), under=under)
