from collections import Counter, defaultdict

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlfleet.core.placement.filters import NodeClass
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import (
    _best,
    default_rules,
    explain,
    plan,
    requirement_of,
)
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.strategies import BUILT_IN
from crawlfleet.core.resources import add, fits
from crawlfleet.model.explanation import Cause
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.resources import NOTHING, RESOURCE_NAMES, Resources
from crawlfleet.model.task import Requirement
from tests.core.placement_worlds import (
    NOW,
    amounts,
    capacities,
    fleet_of,
    fleets,
    make_node,
    make_task,
    need,
    needs,
    nodes_chosen,
    planned,
    queue_of,
)
from tests.sampling import examples

LASTING = {
    "other_cluster",
    "cluster_closed",
    "no_executor",
    "other_type",
    "level_missing",
    "names_missing",
    "capability_missing",
    "too_small",
}
bounded = settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def state_of(fleet: Fleet, ids: list[str]) -> list[object]:
    return [(fleet.reserved(id), fleet.count(id)) for id in ids if id in fleet]


@bounded
@given(fleet=fleets(), asked=st.lists(needs, max_size=6), times=st.integers(1, 8))
def test_no_node_gets_more_than_it_has_of_anything(
    fleet: Fleet, asked: list[Requirement], times: int
) -> None:
    demands = {f"t{number}": one for number, one in enumerate(asked * times)}
    ids = [f"node-{number}" for number in range(12)]
    before = state_of(fleet, ids)
    made = planned(queue_of(*demands.values()), fleet)
    given_out: dict[str, Resources] = defaultdict(lambda: NOTHING)
    for task_id, node_id in made.assignments:
        given_out[node_id] = add(given_out[node_id], demands[task_id].demand)
    for node_id, total in given_out.items():
        assert fits(total, fleet.free(node_id))
    assert len({task_id for task_id, _ in made.assignments}) == len(made.assignments)
    assert state_of(fleet, ids) == before


@settings(max_examples=examples(150), deadline=None)
@given(
    sizes=st.lists(capacities, min_size=1, max_size=3),
    demands=st.lists(amounts, min_size=2, max_size=4, unique=True),
    times=st.integers(2, 12),
    strategy=st.sampled_from(sorted(BUILT_IN)),
)
def test_several_groups_together_fill_nodes_to_the_brim_and_not_beyond(
    sizes: list[Resources], demands: list[Resources], times: int, strategy: str
) -> None:
    fleet = fleet_of(*(make_node(f"n{n}", resources=size) for n, size in enumerate(sizes)))
    tasks = [need(demand=demand) for demand in demands for _ in range(times)]
    made = planned(queue_of(*tasks), fleet, default_rules(default_strategy=strategy))
    for task_id, node_id in made.assignments:
        demand = tasks[int(task_id[1:])].demand
        assert fits(demand, fleet.free(node_id))
        fleet.reserve(node_id, demand)
    for requirement in made.unplaced:
        assert not any(fits(requirement.demand, fleet.free(f"n{n}")) for n in range(len(sizes)))
    assert len(made.assignments) == len(tasks) or made.unplaced


@bounded
@given(fleet=fleets(), asked=st.lists(needs, min_size=1, max_size=5))
def test_what_is_placed_is_feasible_and_what_is_left_has_no_room(
    fleet: Fleet, asked: list[Requirement]
) -> None:
    rules = default_rules()
    demands = {f"t{number}": one for number, one in enumerate(asked * 2)}
    made = planned(queue_of(*demands.values()), fleet, rules)
    for task_id, node_id in made.assignments:
        verdicts = explain(demands[task_id], fleet, rules).details
        assert [v.reasons for v in verdicts if v.node_id == node_id] == [()]
        fleet.reserve(node_id, demands[task_id].demand)
    left = set(demands) - {task_id for task_id, _ in made.assignments}
    assert {demands[id] for id in left} == set(made.unplaced)
    for requirement, rejections in made.unplaced.items():
        explained = explain(requirement, fleet, rules)
        assert not explained.feasible
        assert explained.rejected == rejections.counts or made.assignments
        assert sum(rejections.counts.values()) == len(fleet)
        assert rejections.tasks == sum(demands[id] == requirement for id in left)


@bounded
@given(fleet=fleets(), asked=needs)
def test_explain_and_plan_agree(fleet: Fleet, asked: Requirement) -> None:
    rules = default_rules()
    explained = explain(asked, fleet, rules)
    made = planned(queue_of(asked), fleet, rules)
    assert explained.feasible == bool(made.assignments)
    assert explained.nodes == len(fleet) == len(explained.details)
    assert explained.feasible_nodes == sum(not each.reasons for each in explained.details)
    first = Counter(each.reasons[0].filter for each in explained.details if each.reasons)
    assert first == explained.rejected
    assert sum(each.nodes for each in explained.causes) == sum(explained.rejected.values())
    ranks = [(not each.lasting, -each.nodes) for each in explained.causes]
    assert ranks == sorted(ranks)
    lasting = sum(each.nodes for each in explained.causes if each.lasting)
    assert lasting == sum(
        any(reason.code in LASTING for reason in each.reasons) for each in explained.details
    )
    if not made.assignments:
        assert made.unplaced[asked].counts == explained.rejected
    assert msgspec.json.decode(msgspec.json.encode(explained), type=type(explained)) == explained


@bounded
@given(fleet=fleets(), asked=st.lists(needs, max_size=8), seed=st.integers(0, 9))
def test_the_same_seed_gives_the_same_plan(
    fleet: Fleet, asked: list[Requirement], seed: int
) -> None:
    first = planned(queue_of(*asked), fleet, seed=seed)
    second = planned(queue_of(*asked), fleet, seed=seed)
    assert first == second


def test_the_limit_is_kept_and_what_is_beyond_it_is_not_called_unplaced() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(slots=50)))
    made = planned(queue_of(*[need()] * 30), fleet, limit=7)
    assert [task_id for task_id, _ in made.assignments] == [f"t{number}" for number in range(7)]
    assert made.unplaced == {}
    assert planned(queue_of(need()), fleet, limit=0).assignments == []


def test_the_first_in_line_get_the_last_slots() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(slots=2)))
    queue = ProjectQueues()
    for id, priority in (("low", 2), ("high", 9), ("middle", 5)):
        queue.add(id, need(), priority=priority, created_at=NOW)
    assert [id for id, _ in planned(queue, fleet).assignments] == ["high", "middle"]


def test_work_lies_ready_at_a_node_only_when_no_other_could_begin_it() -> None:
    fleet = fleet_of(*(make_node(id, resources=Resources(slots=2)) for id in "abc"))
    fleet.allow_ahead("a", 16)
    queue = queue_of(*[need()] * 30)
    nodes = [node for _, node in planned(queue, fleet).assignments]
    assert Counter(nodes[:6]) == {"a": 2, "b": 2, "c": 2}
    assert nodes[6:] == ["a"] * 16
    fleet.reserve("a", Resources(slots=18))
    assert fleet.free("a").slots == 0
    assert "a" not in dict(planned(queue, fleet).assignments).values()
    fleet.allow_ahead("a", 0)
    fleet.release("a", Resources(slots=17))
    assert len(planned(queue, fleet).assignments) == 5


def test_a_group_that_does_not_fit_does_not_hold_up_the_others() -> None:
    fleet = fleet_of(make_node("a"))
    queue = ProjectQueues()
    queue.add("huge", need(demand=Resources(cpu_cores=64, slots=1)), priority=10, created_at=NOW)
    queue.add("small", need(), priority=1, created_at=NOW)
    made = plan(queue, fleet, default_rules(), now=NOW + 30, seed=1, limit=10)
    assert [id for id, _ in made.assignments] == ["small"]
    (rejections,) = made.unplaced.values()
    assert rejections.counts == {"resources": 1}
    assert rejections.tasks == 1
    assert rejections.waited_s == 30


def test_groups_of_one_plan_share_what_is_free() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(memory_mb=1000, slots=9)))
    asked = [
        need(demand=Resources(memory_mb=each, slots=1)) for each in (400.0, 300.0, 200.0, 100.0)
    ]
    made = planned(queue_of(*asked), fleet)
    assert [id for id, _ in made.assignments] == ["t0", "t1", "t2", "t3"]
    made = planned(queue_of(*reversed(asked), need(demand=Resources(memory_mb=1, slots=1))), fleet)
    assert len(made.assignments) == 4


def test_a_fleet_without_nodes_leaves_all_waiting() -> None:
    made = planned(queue_of(need()), Fleet())
    assert made.assignments == []
    assert made.unplaced[need()].counts == {}
    assert explain(need(), Fleet(), default_rules()).summary == "There are no nodes."


def test_a_plan_is_the_same_when_nobody_asks_why_something_was_left_over() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(slots=2)))
    queue = queue_of(*[need()] * 3, need(demand=Resources(cpu_cores=64, slots=1)))
    told = plan(queue, fleet, default_rules(), now=NOW, seed=1, limit=10)
    untold = plan(queue, fleet, default_rules(), now=NOW, seed=1, limit=10, reasons=False)
    assert len(told.assignments) == 2
    assert len(told.unplaced) == 2
    assert untold.assignments == told.assignments
    assert untold.unplaced == {}


def test_requirements_of_like_tasks_are_equal_and_hashable() -> None:
    one = make_task(
        capabilities={"b": ["y", "x"], "a": 1},
        content_features={"technology": "react", "nested": {"k": [1]}},
        min_resources={"cpu": 2},
        schedule_strategy="random",
        target_region="us",
    )
    other = make_task(
        "task-2",
        capabilities={"a": 1, "b": ["x", "y"]},
        content_features={"nested": {"k": [1]}, "technology": "react"},
        min_resources={"cpu_cores": 2},
        schedule_strategy="random",
        target_region="us",
    )
    assert hash(requirement_of(one)) == hash(requirement_of(other))
    assert requirement_of(one) == requirement_of(other)
    assert requirement_of(one).demand == Resources(cpu_cores=2, slots=1)
    assert requirement_of(one).capabilities == (("a", 1), ("b", ("x", "y")))


def test_a_users_filter_rejects_with_its_own_reason() -> None:
    def same_owner(node: NodeClass, requirement: Requirement) -> str | None:
        wanted = dict(requirement.content_features).get("owner")
        return None if node.label("owner") == wanted else f"belongs to {node.label('owner')}"

    rules = default_rules(filters={"owner": same_owner})
    fleet = fleet_of(
        make_node("a", labels={"owner": "ann"}), make_node("b", labels={"owner": "bob"})
    )
    asked = need(content_features=(("owner", "bob"),))
    assert nodes_chosen(planned(queue_of(asked), fleet, rules)) == ["b"]
    nobody = need(content_features=(("owner", "eve"),))
    assert planned(queue_of(nobody), fleet, rules).unplaced[nobody].counts == {"owner": 2}
    (first, _) = explain(nobody, fleet, rules).details
    assert [(each.filter, each.message) for each in first.reasons] == [("owner", "belongs to ann")]


def test_a_filter_that_fails_says_no() -> None:
    rules = default_rules(filters={"broken": lambda node, requirement: 1 / 0})  # type: ignore[dict-item, return-value]
    fleet = fleet_of(make_node("a"))
    assert planned(queue_of(need()), fleet, rules).assignments == []
    (verdict,) = explain(need(), fleet, rules).details
    assert verdict.reasons[0].message == "the filter failed: ZeroDivisionError: division by zero"


def test_a_cluster_that_takes_no_work_gets_none() -> None:
    fleet = fleet_of(make_node("a"))
    fleet.set_cluster("default", False)
    assert planned(queue_of(need()), fleet).unplaced[need()].counts == {"cluster": 1}
    assert "takes no new work" in str(explain(need(), fleet, default_rules()).details)
    fleet.set_cluster("default", True)
    assert nodes_chosen(planned(queue_of(need()), fleet)) == ["a"]


@pytest.mark.parametrize(
    ("fields", "filter"),
    [
        ({"status": NodeStatus.DRAINING}, "status"),
        ({"status": NodeStatus.PENDING}, "status"),
        ({"health": Health.UNHEALTHY}, "health"),
        ({"health": Health.UNREACHABLE}, "health"),
        ({"cluster_id": "other"}, "cluster"),
        ({"task_types": ("python",)}, "task_type"),
        ({"node_type": "odd"}, "node_type"),
        ({"capabilities": {}}, "capabilities"),
        ({"resources": Resources(slots=1)}, "resources"),
    ],
)
def test_each_filter_is_named_in_plan_and_explanation(
    fields: dict[str, object], filter: str
) -> None:
    good: dict[str, object] = {"capabilities": {"js": 1}}
    asked = need(
        node_type="standard",
        capabilities=(("js", 1),),
        demand=Resources(memory_mb=100, slots=1),
    )
    assert explain(asked, fleet_of(make_node("a", **good)), default_rules()).feasible
    fleet = fleet_of(make_node("a", **{**good, **fields}))
    assert planned(queue_of(asked), fleet).unplaced[asked].counts == {filter: 1}
    explained = explain(asked, fleet, default_rules())
    assert explained.rejected == {filter: 1}
    assert [reason.filter for reason in explained.details[0].reasons] == [filter]
    assert explained.summary.startswith("None of 1 nodes can take it now: 1 ")


def test_resources_say_whether_they_are_too_small_or_only_taken() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(memory_mb=1000, cpu_cores=2, slots=1)))
    fleet.reserve("a", Resources(memory_mb=600))
    asked = need(demand=Resources(memory_mb=500, cpu_cores=4, slots=1))
    (verdict,) = explain(asked, fleet, default_rules()).details
    assert {reason.message for reason in verdict.reasons} == {
        "cpu_cores: needs 4, the node has only 2 in all",
        "memory_mb: needs 500, 400 of 1000 is free",
    }


def test_what_lasts_is_told_before_what_passes() -> None:
    """A node that is ill, and could not do it in good health either, is no node to wait for."""
    fleet = fleet_of(
        make_node("ill", task_types=("python",), health=Health.UNHEALTHY),
        make_node("away", task_types=("python",), status=NodeStatus.MAINTENANCE),
        make_node("small", resources=Resources(memory_mb=10, slots=1), health=Health.UNHEALTHY),
    )
    asked = need(demand=Resources(memory_mb=100, slots=1))
    explained = explain(asked, fleet, default_rules())
    assert explained.rejected == {"health": 2, "status": 1}
    assert explained.causes == (
        Cause(code="task_type", nodes=2, lasting=True),
        Cause(code="size", nodes=1, lasting=True),
    )
    assert explained.summary == (
        "None of 3 nodes can take it now: 2 without an executor for the task type, 1 too small for "
        "what it asks. Add a node that can, or change what the task asks for."
    )

    for number in range(3):
        fleet.put(make_node(f"busy{number}", health=Health.UNHEALTHY))
    explained = explain(asked, fleet, default_rules())
    assert [(each.code, each.nodes) for each in explained.causes] == [
        ("task_type", 2),
        ("size", 1),
        ("health", 3),
    ]
    assert explained.summary.endswith("1 too small for what it asks, 3 not healthy.")


def test_a_node_that_is_only_full_has_a_cause_that_passes() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(slots=1)))
    fleet.reserve("a", Resources(slots=1))
    explained = explain(need(), fleet, default_rules())
    assert explained.causes == (Cause(code="resources", nodes=1, lasting=False),)
    assert explained.summary.endswith("It waits until something is finished.")


def test_the_details_of_a_large_fleet_begin_with_the_nodes_that_came_closest() -> None:
    fleet = Fleet()
    for number in range(300):
        fleet.put(make_node(f"n{number}", status=NodeStatus.OFFLINE))
    fleet.put(make_node("full", resources=Resources()))
    explained = explain(need(), fleet, default_rules())
    assert len(explained.details) == 100
    assert explained.details[0].node_id == "full"
    assert explained.rejected == {"status": 300, "resources": 1}


def test_every_resource_is_counted() -> None:
    for name in RESOURCE_NAMES:
        fleet = fleet_of(make_node("a", resources=Resources(**{"slots": 9, name: 3})))
        asked = need(demand=Resources(**{"slots": 1, name: 1}))
        assert len(planned(queue_of(*[asked] * 9), fleet).assignments) == 3 or name == "slots"


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(
    nodes=st.integers(1, 6000),
    wanted=st.integers(1, 80),
    levels=st.sampled_from([2, 50, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_the_best_of_a_large_fleet_are_the_best(
    nodes: int, wanted: int, levels: int, seed: int
) -> None:
    score = np.random.default_rng(seed).integers(levels, size=nodes).astype(np.float64)
    best = _best(score, wanted)
    assert best.tolist() == np.argsort(score, kind="stable")[:wanted].tolist()


def test_a_sample_that_misleads_does_no_harm() -> None:
    score = np.ones(6000)
    score[::23] = 0.0
    assert _best(score, 300).tolist() == np.argsort(score, kind="stable")[:300].tolist()


def test_a_node_that_has_the_code_ready_is_preferred_unless_it_is_much_busier() -> None:
    nodes = [make_node(f"node-{number}") for number in range(3)]
    fleet = fleet_of(*nodes)
    asked = need(bundle="f8e9")
    fleet.add_ready(nodes[2].id, "f8e9")
    fleet.observe(nodes[2].id, 0.3)

    def chosen() -> list[str]:
        return [node for _, node in planned(queue_of(asked), fleet).assignments]

    assert chosen() == [nodes[2].id]
    fleet.observe(nodes[2].id, 0.9)
    assert chosen() != [nodes[2].id]
    assert planned(queue_of(need(bundle="other")), fleet).assignments[0][1] != nodes[2].id
