import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crawlfleet.core.placement.filters import shortfall
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.resources import add, subtract
from crawlfleet.model.node import Node, NodeStatus
from crawlfleet.model.resources import NOTHING, Resources
from tests.core.placement_worlds import (
    amounts,
    fleet_of,
    make_node,
    need,
    node_fields,
    nodes_chosen,
    planned,
    queue_of,
)

IDS = [f"n{number}" for number in range(25)]


class FleetAgainstDicts(RuleBasedStateMachine):
    """Whatever happens to the columns, they say what plain dictionaries would say."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.nodes: dict[str, Node] = {}
        self.held: dict[str, list[Resources]] = {id: [] for id in IDS}

    @rule(id=st.sampled_from(IDS), fields=node_fields)
    def put(self, id: str, fields: dict[str, object]) -> None:
        self.nodes[id] = make_node(id, **fields)
        self.fleet.put(self.nodes[id])

    @rule(id=st.sampled_from(IDS))
    def drop(self, id: str) -> None:
        self.nodes.pop(id, None)
        self.fleet.drop(id)

    @rule(id=st.sampled_from(IDS), amount=amounts)
    def reserve(self, id: str, amount: Resources) -> None:
        self.held[id].append(amount)
        self.fleet.reserve(id, amount)

    @rule(id=st.sampled_from(IDS))
    def release(self, id: str) -> None:
        if self.held[id]:
            self.fleet.release(id, self.held[id].pop())

    @rule(id=st.sampled_from(IDS))
    def remember(self, id: str) -> None:
        self.fleet.remember_success(id, (("technology", "react"),))

    @invariant()
    def columns_agree(self) -> None:
        assert len(self.fleet) == len(self.nodes)
        for id, node in self.nodes.items():
            total = NOTHING
            for amount in self.held[id]:
                total = add(total, amount)
            assert id in self.fleet
            assert self.fleet.capacity(id) == node.resources
            assert self.fleet.reserved(id) == total
            assert self.fleet.free(id) == subtract(node.resources, total)
            assert self.fleet.count(id) == len(self.held[id])


FleetAgainstDicts.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None
)
TestFleetAgainstDicts = FleetAgainstDicts.TestCase


def test_reservations_survive_a_node_that_leaves_and_comes_back() -> None:
    fleet = fleet_of(make_node("a", resources=Resources(slots=2)))
    fleet.reserve("a", Resources(slots=1))
    fleet.drop("a")
    fleet.reserve("a", Resources(slots=1))
    fleet.put(make_node("a", resources=Resources(slots=2)))
    assert planned(queue_of(need()), fleet).assignments == []
    fleet.release("a", Resources(slots=1))
    assert len(planned(queue_of(need(), need()), fleet).assignments) == 1


def test_a_node_that_changes_is_seen_as_it_is_now() -> None:
    fleet = fleet_of(make_node("a", capabilities={"js": 1}))
    asked = need(capabilities=(("js", 2),))
    assert planned(queue_of(asked), fleet).assignments == []
    fleet.put(make_node("a", capabilities={"js": 2}))
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["a"]
    fleet.put(make_node("a", capabilities={"js": 2}, status=NodeStatus.DRAINING))
    assert planned(queue_of(asked), fleet).assignments == []


def test_a_fleet_is_shut_while_no_node_takes_work() -> None:
    fleet = Fleet()
    assert fleet.is_shut
    fleet.put(make_node("a", status=NodeStatus.DRAINING))
    assert fleet.is_shut
    fleet.put(make_node("b"))
    fleet.reserve("b", Resources(slots=1000))
    assert not fleet.is_shut, "one that is full takes work again"
    fleet.drop("b")
    assert fleet.is_shut


def test_classes_that_no_node_has_any_more_are_forgotten() -> None:
    fleet = Fleet()
    for number in range(3000):
        fleet.put(make_node("a", labels={"boot": str(number)}, capabilities={"js": number}))
    assert len(fleet.classes) < 1000
    asked = need(capabilities=(("js", 2999),))
    assert nodes_chosen(planned(queue_of(asked), fleet)) == ["a"]


def test_news_of_a_node_that_is_not_known_is_ignored() -> None:
    fleet = Fleet()
    fleet.observe("ghost", 0.5)
    fleet.release("ghost", Resources(slots=1))
    fleet.drop("ghost")
    fleet.remember_success("ghost", (("a", 1),))
    with pytest.raises(KeyError):
        fleet.free("ghost")


@pytest.mark.parametrize(
    ("asked", "has", "missing"),
    [
        (1, 1, None),
        (2, 1, "needs at least 2, the node has 1"),
        (1, None, "needs at least 1, the node has none"),
        (1, True, None),
        (1, False, "needs at least 1, the node has none"),
        (True, 1, None),
        (True, None, "needs at least 1, the node has none"),
        (False, None, None),
        (0, None, None),
        (1, ("user-agent", "proxy"), None),
        (1, "chromium", None),
        (120, "121", None),
        (122, "121", "needs at least 122, the node has 121"),
        (2, True, "needs at least 2, the node has it, but does not say which or how much"),
        (("a", "b"), ("b", "c", "a"), None),
        (("a", "b"), ("b",), "needs a, the node has b"),
        (("a",), "a", None),
        (("a",), None, "needs a, the node has none"),
        (("a",), True, "needs a, the node has it, but does not say which or how much"),
        ((), None, None),
        ("chromium", "chromium", None),
        ("chromium", ("firefox", "chromium"), None),
        ("chromium", "firefox", "needs chromium, the node has firefox"),
        ("2", 2.0, None),
    ],
)
def test_capabilities_are_compared_by_what_is_asked(
    asked: object, has: object, missing: str | None
) -> None:
    found = shortfall(asked, has)
    assert (None if found is None else str(found)) == missing
