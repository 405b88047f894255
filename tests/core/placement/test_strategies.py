"""Each strategy against a reference that places one task after the other, node by node."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlfleet.core.placement.columns import NodeColumns
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import default_rules
from crawlfleet.core.placement.regions import distance_km
from crawlfleet.core.placement.strategies import Ranking
from crawlfleet.core.resources import add
from crawlfleet.model.node import Node
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement
from tests.core.placement_worlds import (
    amounts,
    capacities,
    fleet_of,
    make_node,
    need,
    nodes_chosen,
    planned,
    queue_of,
)
from tests.sampling import examples

BIG = Resources(cpu_cores=4, memory_mb=4096, slots=100)
REGIONS = [None, "us-east-1", "us", "de", "jp", "mars"]
FEATURES = (("content_type", "html"), ("technology", "react"))


class Simple:
    """A node of the reference: plain numbers."""

    def __init__(self, node: Node, fleet: Fleet, turn: int, done: bool) -> None:
        self.node = node
        self.load = fleet.load(node.id)
        self.capacity = fleet.capacity(node.id)
        self.used = fleet.reserved(node.id)
        self.active = fleet.count(node.id)
        self.turn = turn
        self.done = done

    def share(self, extra: Resources, times: int) -> float:
        return max(
            (_get(self.used, name) + times * _get(extra, name)) / _get(self.capacity, name)
            for name in Resources.__struct_fields__
            if _get(self.capacity, name)
        )

    def step(self, demand: Resources) -> float:
        return max(
            _get(demand, name) / _get(self.capacity, name)
            for name in Resources.__struct_fields__
            if _get(self.capacity, name)
        )

    def room(self, demand: Resources) -> bool:
        return all(
            _get(self.used, name) + _get(demand, name) <= _get(self.capacity, name) + 1e-9
            for name in Resources.__struct_fields__
        )


def _get(amount: Resources, name: str) -> float:
    value = getattr(amount, name)
    assert isinstance(value, float | int)
    return float(value)


def _loaded(node: Simple, need: Requirement, before: int) -> tuple[float, ...]:
    """The load as it was before the group, and a step for each task since, this one included."""
    start = max(node.load, node.share(need.demand, -before))
    return (start + (before + 1) * node.step(need.demand),)


REFERENCE: dict[str, Callable[[Simple, Requirement, int], tuple[float, ...]]] = {
    "least_loaded": _loaded,
    "least_tasks": lambda node, need, before: (node.active, *_loaded(node, need, before)),
    "round_robin": lambda node, need, before: (node.turn,),
    "weighted": lambda node, need, before: (
        (node.active + 1) / float(node.node.labels.get("weight", node.capacity.cpu_cores)),
    ),
    "geo_location": lambda node, need, before: (
        round(distance_km(node.node.region, need.target_region)) if need.target_region else 0,
        *_loaded(node, need, before),
    ),
    "content_based": lambda node, need, before: (
        -sum(
            value
            in node.node.capabilities.get(f"{name[:-1]}ies" if name[-1] == "y" else f"{name}s", [])
            for name, value in need.content_features
        )
        - 0.5 * len(need.content_features) * node.done,
        *_loaded(node, need, before),
    ),
    "bin_pack": lambda node, need, before: (
        -node.share(need.demand, -before) - node.step(need.demand),
    ),
}


def worse(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a key is behind another by more than rounding can explain."""
    for mine, yours in zip(one, other, strict=True):
        if abs(mine - yours) > 1e-9:
            return mine > yours
    return False


def assert_each_goes_to_a_best_node(
    strategy: str, nodes: list[Simple], need: Requirement, tasks: int, chosen: list[str]
) -> None:
    """Place the tasks one by one where the plan put them: no other node may have been better."""
    got = Counter[str]()
    for turn, node_id in enumerate(chosen, start=1000):
        keys = {
            node.node.id: REFERENCE[strategy](node, need, got[node.node.id])
            for node in nodes
            if node.room(need.demand)
        }
        better = [id for id, key in keys.items() if worse(keys[node_id], key)]
        assert not better, f"{better} before {node_id}: {keys}"
        (taker,) = (node for node in nodes if node.node.id == node_id)
        taker.used = add(taker.used, need.demand)
        taker.active += 1
        taker.turn = turn
        got[node_id] += 1
    assert len(chosen) == tasks or not any(node.room(need.demand) for node in nodes)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Fleet, list[Simple]]:
    fleet, simple = Fleet(), []
    for number in range(draw(st.integers(1, 6))):
        node = make_node(
            f"n{number}",
            resources=draw(capacities),
            region=draw(st.sampled_from(REGIONS)),
            labels=draw(st.sampled_from([{}, {"weight": "3"}, {"weight": "0.5"}])),
            capabilities=draw(
                st.sampled_from(
                    [{}, {"content_types": ["html"]}, {"technologies": ["react", "vue"]}]
                )
            ),
        )
        fleet.put(node)
        fleet.observe(node.id, draw(st.sampled_from([0.0, 0.2, 0.5, 0.9])))
        simple.append(node)
    turns = dict.fromkeys((node.id for node in simple), 0)
    for turn in range(1, draw(st.integers(0, 8)) + 1):
        node_id = draw(st.sampled_from(sorted(turns)))
        fleet.reserve(node_id, Resources(memory_mb=1))
        turns[node_id] = turn
    done = draw(st.sets(st.sampled_from(sorted(turns))))
    for node_id in done:
        fleet.remember_success(node_id, FEATURES)
    return fleet, [Simple(node, fleet, turns[node.id], node.id in done) for node in simple]


@pytest.mark.parametrize("strategy", sorted(REFERENCE))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    world=worlds(),
    demand=amounts,
    tasks=st.integers(1, 12),
    target=st.sampled_from([None, "us", "eu", "mars"]),
)
def test_a_group_goes_where_placing_task_by_task_would_put_it(
    strategy: str,
    world: tuple[Fleet, list[Simple]],
    demand: Resources,
    tasks: int,
    target: str | None,
) -> None:
    fleet, simple = world
    asked = need(demand=demand, target_region=target, content_features=FEATURES)
    made = planned(queue_of(*[asked] * tasks), fleet, default_rules(default_strategy=strategy))
    assert_each_goes_to_a_best_node(strategy, simple, asked, tasks, nodes_chosen(made))


def test_least_loaded_looks_at_measured_and_at_reserved_load() -> None:
    fleet = fleet_of(*(make_node(id, resources=BIG) for id in "abc"))
    fleet.observe("a", 0.8)
    fleet.reserve("b", Resources(memory_mb=2048))
    fleet.observe("c", 0.3)
    assert nodes_chosen(planned(queue_of(need()), fleet)) == ["c"]


def test_load_counts_what_earlier_groups_of_a_plan_took() -> None:
    fleet = fleet_of(*(make_node(id, resources=Resources(slots=10)) for id in "ab"))
    asked = [*[need()] * 3, *[need(node_type="standard")] * 3]
    assert Counter(nodes_chosen(planned(queue_of(*asked), fleet))) == {"a": 3, "b": 3}
    rules = default_rules(default_strategy="bin_pack")
    assert Counter(nodes_chosen(planned(queue_of(*asked), fleet, rules))) == {"a": 6}


def test_being_able_counts_more_than_having_done() -> None:
    able = {"technologies": ["react"]}
    fleet = fleet_of(make_node("done"), make_node("able", capabilities=able))
    fleet.remember_success("done", FEATURES[1:])
    asked = need(strategy="content_based", content_features=FEATURES[1:])
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["able"]


def test_round_robin_goes_on_where_it_stopped() -> None:
    fleet = fleet_of(*(make_node(id, resources=BIG) for id in "abc"))
    rules = default_rules(default_strategy="round_robin")
    chosen = []
    for _ in range(3):
        for _, node_id in planned(queue_of(need(), need()), fleet, rules).assignments:
            fleet.reserve(node_id, need().demand)
            chosen.append(node_id)
    assert chosen == ["a", "b", "c", "a", "b", "c"]


def test_round_robin_remembers_the_turns_of_earlier_groups_of_a_plan() -> None:
    fleet = fleet_of(*(make_node(id, resources=BIG) for id in "abc"))
    rules = default_rules(default_strategy="round_robin")
    asked = [need()] * 5 + [need(node_type="standard")]
    assert nodes_chosen(planned(queue_of(*asked), fleet, rules)) == ["a", "b", "c", "a", "b", "c"]


def test_weighted_shares_in_proportion() -> None:
    fleet = fleet_of(
        make_node("one", resources=BIG, labels={"weight": "1"}),
        make_node("three", resources=BIG, labels={"weight": "3"}),
        make_node("by-cores", resources=BIG),
    )
    made = planned(queue_of(*[need()] * 80), fleet, default_rules(default_strategy="weighted"))
    assert Counter(nodes_chosen(made)) == {"one": 10, "three": 30, "by-cores": 40}


def test_random_is_the_same_for_a_seed_and_another_for_others() -> None:
    fleet = fleet_of(*(make_node(f"n{number}", resources=BIG) for number in range(30)))
    rules = default_rules(default_strategy="random")
    draws = [nodes_chosen(planned(queue_of(need()), fleet, rules, seed=seed)) for seed in range(40)]
    again = [nodes_chosen(planned(queue_of(need()), fleet, rules, seed=seed)) for seed in range(40)]
    assert draws == again
    assert len({node for (node,) in draws}) > 10


def test_bin_pack_leaves_nodes_empty() -> None:
    fleet = fleet_of(*(make_node(id, resources=Resources(slots=10)) for id in "abc"))
    fleet.reserve("b", Resources(slots=2))
    made = planned(queue_of(*[need()] * 10), fleet, default_rules(default_strategy="bin_pack"))
    assert Counter(nodes_chosen(made)) == {"b": 8, "a": 2}


def test_a_target_that_nobody_knows_falls_back_to_load() -> None:
    fleet = fleet_of(make_node("a", region="us"), make_node("b", region="de"))
    fleet.observe("a", 0.5)
    asked = need(strategy="geo_location", target_region="atlantis")
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["b"]


def test_experience_is_bounded_and_leaves_with_the_node() -> None:
    fleet = fleet_of(make_node("a"), make_node("b"))
    asked = need(strategy="content_based", content_features=FEATURES)
    fleet.remember_success("b", FEATURES)
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["b"]
    fleet.drop("b")
    fleet.put(make_node("c"))
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["a"]
    for number in range(1000):
        fleet.remember_success("c", (("topic", number),))
    fleet.remember_success("c", FEATURES)
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["c"]


def test_a_users_strategy_is_a_few_lines() -> None:
    def most_memory(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
        return Ranking(-nodes.free("memory_mb"), requirement.demand.memory_mb)

    fleet = fleet_of(
        make_node("small", resources=Resources(memory_mb=1000, slots=9)),
        make_node("large", resources=Resources(memory_mb=9000, slots=9)),
    )
    rules = default_rules(strategies={"most_memory": most_memory})
    asked = need(strategy="most_memory", demand=Resources(memory_mb=100, slots=1))
    assert nodes_chosen(planned(queue_of(asked), fleet, rules)) == ["large"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda nodes, requirement, seed: 1 / 0,
        lambda nodes, requirement, seed: Ranking(np.zeros(len(nodes) + 1)),
        lambda nodes, requirement, seed: Ranking(np.zeros(len(nodes)), np.zeros(7)),
    ],
)
def test_a_broken_strategy_is_reported_and_another_used(
    broken: Callable[..., Ranking],
) -> None:
    rules = default_rules(strategies={"broken": broken})
    made = planned(queue_of(need(strategy="broken")), fleet_of(make_node("a")), rules)
    assert nodes_chosen(made) == ["a"]
    assert list(made.faults) == ["broken"]


def test_scores_that_are_no_number_come_last() -> None:
    rules = default_rules(
        strategies={"odd": lambda nodes, requirement, seed: Ranking(np.array([np.nan, 5.0]))}
    )
    fleet = fleet_of(make_node("a"), make_node("b"))
    assert nodes_chosen(planned(queue_of(need(strategy="odd")), fleet, rules)) == ["b"]
