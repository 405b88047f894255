"""Only what the tables list can happen, and everything that happens has its event."""

import itertools

import pytest

from crawlfleet.core.tasks.lifecycle import (
    EXECUTION_TRANSITIONS,
    NODE_TRANSITIONS,
    TASK_TRANSITIONS,
    ExecutionTrigger,
    NodeTrigger,
    TaskTrigger,
    move_execution,
    move_node,
    move_task,
)
from crawlfleet.model.node import Node, NodeStatus
from crawlfleet.model.task import TERMINAL, Execution, ExecutionStatus, Task, TaskStatus


def task(status: TaskStatus = TaskStatus.PENDING) -> Task:
    return Task(
        id="task-1", project_id="p", task_type="t", created_at=1.0, updated_at=1.0, status=status
    )


def node(status: NodeStatus) -> Node:
    return Node(id="node-1", name="n", created_at=1.0, updated_at=1.0, status=status)


def execution(status: ExecutionStatus) -> Execution:
    return Execution(
        id="exec-1",
        task_id="task-1",
        node_id="node-1",
        session_id="sess-1",
        token=1,
        start_time=1.0,
        status=status,
    )


@pytest.mark.parametrize(("status", "trigger"), [*itertools.product(TaskStatus, TaskTrigger)])
def test_a_task_moves_as_the_table_says_and_not_otherwise(
    status: TaskStatus, trigger: TaskTrigger
) -> None:
    moved = move_task(task(status), trigger, now=5.0, cause="why")
    target = TASK_TRANSITIONS.get((status, trigger))
    if target is None:
        assert moved is None
        return
    after, event = moved
    assert (after.status, after.version, after.updated_at) == (target, 2, 5.0)
    assert (event.kind, event.subject) == (f"task.{target}", "task-1")
    assert (event.from_state, event.to_state, event.cause) == (status, target, "why")


@pytest.mark.parametrize(("status", "trigger"), [*itertools.product(NodeStatus, NodeTrigger)])
def test_a_node_moves_as_the_table_says_and_not_otherwise(
    status: NodeStatus, trigger: NodeTrigger
) -> None:
    moved = move_node(node(status), trigger, now=5.0, cause="why")
    target = NODE_TRANSITIONS.get((status, trigger))
    assert (moved is None) == (target is None)
    if moved is not None:
        assert moved[0].status is target
        assert moved[1].kind == f"node.{target}"


@pytest.mark.parametrize(
    ("status", "trigger"), [*itertools.product(ExecutionStatus, ExecutionTrigger)]
)
def test_an_execution_moves_as_the_table_says_and_not_otherwise(
    status: ExecutionStatus, trigger: ExecutionTrigger
) -> None:
    moved = move_execution(execution(status), trigger)
    target = EXECUTION_TRANSITIONS.get((status, trigger))
    assert (moved and moved.status) == target


def test_a_completed_task_never_changes_again() -> None:
    assert not [key for key in TASK_TRANSITIONS if key[0] is TaskStatus.COMPLETED]


def test_the_other_ends_are_left_by_order_only() -> None:
    ways_out = {trigger for source, trigger in TASK_TRANSITIONS if source in TERMINAL}
    assert ways_out == {TaskTrigger.REQUEUED, TaskTrigger.REOPENED}


def test_every_state_of_a_task_can_be_reached_and_every_unfinished_one_can_end() -> None:
    reachable = {TaskStatus.WAITING, *TASK_TRANSITIONS.values()}
    assert reachable == set(TaskStatus)
    can_end = set(TERMINAL)
    for _ in TaskStatus:
        can_end |= {source for (source, _), target in TASK_TRANSITIONS.items() if target in can_end}
    assert can_end == set(TaskStatus)
