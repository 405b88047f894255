"""Work and the environments that it needs: who is waited for, and who should make one."""

import pytest

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.plan import PlacementPlan, default_rules, plan
from crawlfleet.core.placement.warming import hopeful, to_ask_for_bundle, to_ask_for_work
from crawlfleet.model.bundle import Bundle, BundleKind, BundleVersion
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Requirement
from tests.core.placement_worlds import NOW, fleet_of, make_node, need, nodes_chosen, queue_of

DIGEST = "d1"
ASKED = need(bundle=DIGEST)
FULL = Resources(slots=4)
EIGHT = [f"n{number}" for number in range(8)]


def fleet_with(*, warm: str = "", full: str = "", nodes: int = 3) -> Fleet:
    fleet = fleet_of(*(make_node(f"n{number}") for number in range(nodes)))
    if warm:
        fleet.add_ready(warm, DIGEST)
    if full:
        fleet.reserve(full, FULL)
    return fleet


def planned(
    fleet: Fleet, *asked: Requirement, after_s: float = 1.0, making: tuple[str, ...] = ()
) -> PlacementPlan:
    return plan(
        queue_of(*asked),
        fleet,
        default_rules(),
        now=NOW + after_s,
        seed=3,
        limit=100,
        making={DIGEST: making} if making else {},
        patience_s=3.0,
    )


def test_work_goes_where_its_environment_is() -> None:
    fleet = fleet_with(warm="n1")
    fleet.observe("n1", 0.9)
    assert nodes_chosen(planned(fleet, ASKED, ASKED)) == ["n1", "n1"]


def test_what_finds_no_room_there_waits_for_a_while_and_then_goes_anywhere() -> None:
    fleet = fleet_with(warm="n1", full="n1")
    made = planned(fleet, ASKED)
    assert made.assignments == []
    assert made.held == {ASKED: NOW + 3.0}
    assert made.unplaced == {}
    later = planned(fleet, ASKED, after_s=3.1)
    assert later.held == {}
    assert nodes_chosen(later)[0] in {"n0", "n2"}


def test_only_what_has_no_room_is_held() -> None:
    made = planned(fleet_with(warm="n1"), *[ASKED] * 6)
    assert nodes_chosen(made) == ["n1"] * 4
    assert set(made.held) == {ASKED}


def test_a_node_that_makes_the_environment_is_waited_for() -> None:
    fleet = fleet_with()
    assert planned(fleet, ASKED, making=("n2",)).held == {ASKED: NOW + 3.0}
    assert nodes_chosen(planned(fleet, ASKED, after_s=4.0, making=("n2",))) != []


def test_where_nobody_has_it_or_makes_it_nobody_waits() -> None:
    made = planned(fleet_with(), ASKED)
    assert len(made.assignments) == 1
    assert made.held == {}


def test_without_patience_nobody_waits() -> None:
    fleet = fleet_with(warm="n1", full="n1")
    made = plan(queue_of(ASKED), fleet, default_rules(), now=NOW, seed=1, limit=9)
    assert len(made.assignments) == 1


def test_work_without_a_bundle_waits_for_nobody() -> None:
    assert len(planned(fleet_with(warm="n1", full="n1"), need()).assignments) == 1


@pytest.mark.parametrize(
    "hopeless",
    [
        {"status": NodeStatus.OFFLINE},
        {"cluster_id": "elsewhere"},
        {"resources": Resources(slots=0.5)},
    ],
)
def test_a_node_that_could_never_take_it_is_not_waited_for(hopeless: dict[str, object]) -> None:
    fleet = fleet_of(make_node("n0"), make_node("n1", **hopeless))
    fleet.add_ready("n1", DIGEST)
    assert nodes_chosen(planned(fleet, ASKED)) == ["n0"]
    assert hopeful(ASKED, fleet, default_rules(), {}) == []


def test_what_a_node_has_no_more_is_forgotten() -> None:
    fleet = fleet_with(warm="n1", full="n1")
    assert fleet.replace_ready("n1", ())
    assert len(planned(fleet, ASKED).assignments) == 1


@pytest.mark.parametrize(("tasks", "asked"), [(1, 1), (4, 1), (5, 2), (100, 4)])
def test_as_many_nodes_are_asked_as_the_work_needs(tasks: int, asked: int) -> None:
    fleet = fleet_with(warm="n0", full="n0", nodes=8)
    chosen = to_ask_for_work(ASKED, fleet, default_rules(), {}, tasks=tasks, among=EIGHT)
    assert len(chosen) == asked
    assert "n0" not in chosen


def test_those_that_were_asked_already_count() -> None:
    fleet = fleet_with(nodes=8)
    making = {DIGEST: ("n1", "n2", "n3")}
    chosen = to_ask_for_work(ASKED, fleet, default_rules(), making, tasks=100, among=EIGHT)
    assert len(chosen) == 1
    assert not {*chosen} & {*making[DIGEST]}


def test_only_those_that_can_be_asked_are() -> None:
    fleet = fleet_with(nodes=8)
    chosen = to_ask_for_work(ASKED, fleet, default_rules(), {}, tasks=100, among=["n5", "gone"])
    assert chosen == ["n5"]


def bundle(*digests: str) -> Bundle:
    versions = tuple(
        BundleVersion(
            number=number,
            digest=digest,
            bytes=1,
            files=1,
            unpacked_bytes=1,
            kind=BundleKind.FILES,
            created_at=NOW,
            cause="",
        )
        for number, digest in enumerate(digests, 1)
    )
    return Bundle(
        id="p/b",
        project_id="p",
        name="b",
        created_at=NOW,
        updated_at=NOW,
        current=len(digests),
        last=len(digests),
        versions=versions[::-1],
    )


def test_a_new_version_is_made_where_the_one_before_was() -> None:
    nodes = [make_node(f"n{number}", capabilities={"bundles": True}) for number in range(4)]
    fleet = fleet_of(*nodes)
    assert len(to_ask_for_bundle(bundle("new"), nodes, fleet)) == 1
    for id in ("n1", "n3"):
        fleet.add_ready(id, "old")
    assert to_ask_for_bundle(bundle("old", "new"), nodes, fleet) == ["n1", "n3"]


def test_only_nodes_that_run_bundles_are_asked() -> None:
    nodes = [
        make_node("n0"),
        make_node("n1", capabilities={"bundles": True}, status=NodeStatus.DRAINING),
    ]
    assert to_ask_for_bundle(bundle("new"), nodes, fleet_of(*nodes)) == []


def test_nodes_kept_for_another_project_never_get_the_code() -> None:
    theirs, ours, everybodys = (
        make_node(id, capabilities={"bundles": True}, labels={"for": id})
        for id in ("theirs", "ours", "everybodys")
    )
    fleet = fleet_of(theirs, ours, everybodys)
    fleet.keep_nodes({"q": (("for", "theirs"),), "p": (("for", "ours"),)})
    assert to_ask_for_bundle(bundle("new"), [theirs], fleet) == []
    fleet.reserve("ours", FULL)
    fleet.reserve("everybodys", FULL)
    assert to_ask_for_bundle(bundle("new"), [theirs, ours], fleet) == ["ours"]
    # Before it was kept for them it ran a version.
    for id in ("theirs", "ours", "everybodys"):
        fleet.add_ready(id, "old")
    asked = to_ask_for_bundle(bundle("old", "new"), [theirs, ours, everybodys], fleet)
    assert asked == ["everybodys", "ours"]


def test_a_cluster_that_takes_no_work_makes_nothing_ahead() -> None:
    node = make_node("n0", capabilities={"bundles": True})
    fleet = fleet_of(node)
    fleet.set_cluster(node.cluster_id, accepting=False)
    assert to_ask_for_bundle(bundle("new"), [node], fleet) == []
