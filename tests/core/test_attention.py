"""What is shown first when several things are wrong at once."""

import msgspec
import pytest

from crawlfleet.core.attention import LONG_WAIT_S, BlockedHost, Observed, WaitingTasks, rank
from crawlfleet.model.attention import SEVERITIES, Concern
from crawlfleet.model.explanation import Cause
from crawlfleet.model.node import Condition, Health, Node, NodeStatus
from crawlfleet.model.translatable import Phrase

ONLINE = Node(id="node-1", name="ann", created_at=0.0, updated_at=0.0, status=NodeStatus.ONLINE)
STUCK = WaitingTasks(
    first="task-1",
    tasks=3,
    waited_s=10.0,
    task_type="render",
    feasible=False,
    causes=[Cause(code="task_type", nodes=1, lasting=True)],
)
FULL = Cause(code="resources", nodes=1, lasting=False)
SMALL = Cause(code="size", nodes=1, lasting=True)
BUSY = msgspec.structs.replace(STUCK, causes=[FULL], waited_s=LONG_WAIT_S)


def node(number: int = 1, **fields: object) -> Node:
    return msgspec.structs.replace(ONLINE, id=f"node-{number}", name=f"n{number}", **fields)


def kinds(seen: Observed) -> list[tuple[str, str]]:
    return [(each.severity, each.kind) for each in rank(seen)]


def test_a_fleet_at_work_needs_nothing() -> None:
    feasible = msgspec.structs.replace(STUCK, feasible=True, waited_s=1e6)
    assert rank(Observed(nodes=[ONLINE], waiting=[feasible], attempts=100, disk_free=0.5)) == ()


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (Observed(), [("medium", "no_node_online")]),
        (Observed(waiting=[STUCK]), [("high", "no_node_online")]),
        (Observed(nodes=[ONLINE], waiting=[STUCK]), [("high", "nothing_can_run")]),
        (Observed(nodes=[ONLINE], waiting=[BUSY]), [("medium", "overdue")]),
        (
            Observed(
                nodes=[ONLINE], waiting=[msgspec.structs.replace(BUSY, waited_s=LONG_WAIT_S - 1)]
            ),
            [],
        ),
        (
            Observed(nodes=[ONLINE], waiting=[msgspec.structs.replace(BUSY, causes=[SMALL])]),
            [("high", "nothing_can_run")],
        ),
        (
            Observed(nodes=[ONLINE], waiting=[msgspec.structs.replace(BUSY, causes=[SMALL, FULL])]),
            [("medium", "overdue")],
        ),
        (
            Observed(nodes=[ONLINE], waiting=[msgspec.structs.replace(STUCK, waited_s=1.0)]),
            [],
        ),
        (
            Observed(nodes=[ONLINE, node(2, status=NodeStatus.UNRESPONSIVE)]),
            [("high", "node_unresponsive")],
        ),
        (
            Observed(nodes=[ONLINE, node(2, health=Health.UNHEALTHY)]),
            [("high", "node_unhealthy")],
        ),
        (
            Observed(nodes=[ONLINE, node(2, health=Health.UNHEALTHY, status=NodeStatus.OFFLINE)]),
            [],
        ),
        (Observed(nodes=[node(1, health=Health.DEGRADED)]), [("medium", "node_degraded")]),
        (
            Observed(nodes=[ONLINE, node(2, status=NodeStatus.MAINTENANCE)]),
            [("low", "node_maintenance")],
        ),
        (Observed(nodes=[ONLINE], dead_letters=2), [("medium", "dead_letters")]),
        (Observed(nodes=[ONLINE], attempts=100, failures={"network": 19}), []),
        (
            Observed(nodes=[ONLINE], attempts=100, failures={"network": 20}),
            [("medium", "failures")],
        ),
        (Observed(nodes=[ONLINE], attempts=4, failures={"network": 4}), []),
        (Observed(nodes=[ONLINE], disk_free=0.08), [("medium", "disk_full")]),
        (Observed(nodes=[ONLINE], disk_free=0.01), [("high", "disk_full")]),
        (Observed(whole=False, dead_letters=1), [("medium", "dead_letters")]),
    ],
)
def test_what_is_wrong_is_named(seen: Observed, wanted: list[tuple[str, str]]) -> None:
    assert kinds(seen) == wanted


def test_the_worst_comes_first_and_of_equals_what_stands_for_most() -> None:
    many = msgspec.structs.replace(STUCK, first="task-9", tasks=900)
    found = rank(
        Observed(
            nodes=[ONLINE, node(2, status=NodeStatus.DRAINING), node(3, health=Health.DEGRADED)],
            waiting=[STUCK, many],
            dead_letters=7,
        )
    )
    assert [SEVERITIES.index(each.severity) for each in found] == [0, 0, 1, 1, 2]
    assert [each.subject.id for each in found[:2]] == ["task-9", "task-1"]
    assert [each.kind for each in found[2:4]] == ["dead_letters", "node_degraded"]


def test_the_reason_is_told() -> None:
    pressed = Condition(
        kind="memory",
        health=Health.UNHEALTHY,
        reason="memory is at 97 %",
        since=0.0,
        value=0.97,
        limit=0.95,
    )
    full = node(
        1, health=Health.UNHEALTHY, health_reason="memory is at 97 %", conditions=(pressed,)
    )
    (ill, stuck) = rank(Observed(nodes=[full], waiting=[STUCK]))[::-1]
    assert ill.message == "n1 is unhealthy: memory is at 97 %"
    assert ill.values == {"name": "n1"}
    assert ill.because == (Phrase("memory", {"value": 0.97, "limit": 0.95}),)
    assert stuck.message == (
        "3 render tasks wait, and no node can run them: 1 without an executor for the task type"
    )
    assert stuck.because == (Phrase("task_type", {"n": 1}),)
    assert all(each.remedy for each in (ill, stuck))


def test_many_of_a_kind_are_one_line() -> None:
    silent = [node(number, status=NodeStatus.UNRESPONSIVE) for number in range(40)]
    hosts = [
        BlockedHost(host=f"{number}.example", task_id="task-1", why="429", errors=9, waiting=2)
        for number in range(9)
    ]
    lines: list[Concern] = [*rank(Observed(nodes=[ONLINE, *silent], blocked=hosts))]
    assert [(each.kind, each.count, each.subject.id) for each in lines] == [
        ("node_unresponsive", 40, ""),
        ("host_blocks", 18, ""),
    ]
    assert len(rank(Observed(nodes=[ONLINE, *silent[:5]]))) == 5
