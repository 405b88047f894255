"""What an attempt changes when it goes its usual way: no more than a store is told."""

import msgspec
import pytest

from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.admission import admit
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.change import Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import (
    EXECUTION_BLANKS,
    EXECUTION_STEPS,
    TASK_BLANKS,
    TASK_STEPS,
    ErrorClass,
    Execution,
    Task,
    TaskError,
    TaskStatus,
)

ALWAYS = {"status", "version", "updated_at"}
ERROR = TaskError(error_class=ErrorClass.ERROR, message="it failed before")


def pending(**fields: object) -> Task:
    task = Task(id="task-1", project_id="p", task_type="t", created_at=1.0, updated_at=1.0)
    return msgspec.structs.replace(task, **fields)


def assigned(task: Task) -> Change:
    change = attempts.assign(
        task,
        node_id="node-1",
        session_id="sess-1",
        execution_id="exec-1",
        reserved=Resources(slots=1.0),
        allocation=Resources(memory_mb=512.0),
        now=5.0,
        cause="placed",
    )
    assert change is not None
    return change


def lease_after(change: Change) -> Lease:
    return Lease(change.tasks[0], change.executions[0])


def succeeded(lease: Lease) -> Change:
    change = attempts.succeed(lease, msgspec.Raw(b"7"), {"cpu_s": 0.1}, now=9.0, begun_at=6.0)
    assert change is not None
    return change


def differences(before: Task | Execution, after: Task | Execution) -> set[str]:
    return {
        name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)
    }


def test_what_goes_its_usual_way_changes_only_what_its_state_names() -> None:
    task = pending()
    given = assigned(task)
    begun = attempts.start(lease_after(given), now=6.0)
    assert begun is not None
    for before, change in (
        (Lease(task, given.executions[0]), given),
        (lease_after(given), begun),
        (lease_after(given), succeeded(lease_after(given))),
        (lease_after(begun), succeeded(lease_after(begun))),
    ):
        after = lease_after(change)
        assert change.usual
        assert differences(before.task, after.task) <= {*TASK_STEPS[after.task.status], *ALWAYS}
        if before.execution is not after.execution:
            named = {*EXECUTION_STEPS[after.execution.status], *ALWAYS}
            assert differences(before.execution, after.execution) <= named


def test_what_is_new_is_blank_where_it_is_said_to_be() -> None:
    made = admit(TaskRequest(task_type="t"), id="task-1", now=1.0, cause="me", digest=lambda _: "")
    task = made.tasks[0]
    assert made.usual
    execution = assigned(task).executions[0]
    assert not any(getattr(task, name) for name in TASK_BLANKS)
    assert not any(getattr(execution, name) for name in EXECUTION_BLANKS)


@pytest.mark.parametrize(
    "lease",
    [
        lease_after(assigned(pending(error=ERROR, retry_count=1))),
        lease_after(assigned(pending(error=ERROR, status=TaskStatus.PENDING))),
    ],
)
def test_success_after_an_error_is_more_than_usual(lease: Lease) -> None:
    change = succeeded(lease)
    assert not change.usual
    assert change.tasks[0].error is None


def test_a_task_that_had_begun_is_not_assigned_as_usual() -> None:
    assert not assigned(pending(started_at=2.0)).usual
