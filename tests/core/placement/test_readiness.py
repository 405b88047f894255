"""What is known of the environments of nodes."""

from crawlfleet.core.placement.fleet import REMEMBERED_FEATURES, Fleet, Readiness
from crawlfleet.model.bundle import MAX_TOLD
from tests.core.placement_worlds import fleet_of, make_node


def test_what_many_nodes_have_makes_nobody_forget_what_one_has() -> None:
    fleet = fleet_of(*(make_node(f"n{number}") for number in range(9)))
    fleet.remember_success("n0", (("topic", "maps"),))
    for number in range(9):
        told = [f"{number}-{each}" for each in range(MAX_TOLD)]
        assert fleet.replace_ready(f"n{number}", told)
    assert 9 * MAX_TOLD > REMEMBERED_FEATURES
    assert fleet.ready("0-0") == ["n0"]
    assert fleet.ready(f"8-{MAX_TOLD - 1}") == ["n8"]
    assert fleet.draft().experience[("topic", "maps")].any(), "nor what it has done"


def test_each_node_is_bounded_by_itself_and_what_is_used_stays() -> None:
    known = Readiness()
    known.add("other", "d0")
    for number in range(MAX_TOLD):
        known.add("node", f"d{number}")
    known.add("node", "d0")
    known.add("node", "one more")
    assert known.has("node", "d0")
    assert not known.has("node", "d1")
    assert list(known.nodes("d1")) == []
    assert list(known.nodes("d0")) == ["other", "node"]


def test_only_what_changes_is_news() -> None:
    known = Readiness()
    assert known.replace("node", ("a", "b"))
    assert not known.replace("node", ("b", "a"))
    assert known.replace("node", ("b",))
    assert [known.has("node", each) for each in "ab"] == [False, True]


def test_nothing_is_left_of_a_node_that_is_gone() -> None:
    fleet = fleet_of(make_node("n0"), make_node("n1"), make_node("n2"))
    for id in ("n0", "n2"):
        fleet.add_ready(id, "d")
    fleet.drop("n0")
    assert fleet.ready("d") == ["n2"]
    assert [fleet.node_at(row).id for row in fleet.ready_rows("d").nonzero()[0]] == ["n2"]
    fleet.drop("n2")
    assert fleet.ready("d") == []
    assert fleet._ready.__dict__ == Readiness().__dict__
    fleet.put(make_node("n2"))
    assert not fleet.has_ready("n2", "d")


def test_what_nodes_say_that_nobody_knows_is_not_kept() -> None:
    fleet = Fleet()
    fleet.add_ready("ghost", "d")
    assert not fleet.replace_ready("ghost", ("d",))
    assert fleet.ready("d") == []
