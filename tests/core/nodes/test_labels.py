"""What operators say about a node wins over what it says of itself."""

from typing import Any

from crawlfleet.core.nodes.labels import changed_node, label_problems, labelled, overridden
from crawlfleet.model.node import Node
from crawlfleet.model.requests import NodeChangeRequest


def node(**fields: Any) -> Node:
    return Node(id="node-1", name="n", created_at=0.0, updated_at=0.0, **fields)


def change(of: Node, **request: Any) -> Node | None:
    changed = changed_node(of, NodeChangeRequest(**request), now=5.0, by="ada")
    return None if changed is None else changed[0]


def test_labels_of_operators_win_and_removed_ones_stay_away() -> None:
    announced = {"rack": "7", "spare": "yes", "own": "1"}

    merged = labelled(announced, {"rack": "8", "spare": None, "new": "x"})

    assert merged == {"rack": "8", "own": "1", "new": "x"}


def test_a_change_is_a_new_version_with_an_event() -> None:
    before = node(labels={"rack": "7", "spare": "yes"}, version=3)
    request = NodeChangeRequest(labels={"rack": "8", "spare": None}, description="d")
    changed = changed_node(before, request, now=5.0, by="ada")

    assert changed is not None
    after, event = changed
    assert after.labels == {"rack": "8"}
    assert after.label_overrides == {"rack": "8", "spare": None}
    assert (after.description, after.description_override) == ("d", "d")
    assert (after.version, after.updated_at) == (4, 5.0)
    assert (event.kind, event.subject, event.cause) == ("node.changed", "node-1", "changed by ada")
    assert event.details == {"labels": {"rack": "8", "spare": None}, "description": "d"}


def test_earlier_words_of_operators_stay() -> None:
    once = change(node(), labels={"a": "1"}, description="d")
    assert once is not None
    twice = change(once, labels={"b": "2"})

    assert twice is not None
    assert twice.label_overrides == {"a": "1", "b": "2"}
    assert twice.description == "d"


def test_saying_the_same_again_changes_nothing() -> None:
    once = change(node(), labels={"a": "1", "b": None})

    assert once is not None
    assert change(once, labels={"a": "1", "b": None}) is None
    assert change(once) is None


def test_a_label_that_the_node_announces_too_is_still_the_operators() -> None:
    same = change(node(labels={"a": "1"}), labels={"a": "1"})

    assert same is not None
    assert same.label_overrides == {"a": "1"}


def test_an_empty_description_is_one() -> None:
    assert overridden("its own", "") == ""
    assert overridden("its own", None) == "its own"


def test_what_is_no_label_is_told_by_name() -> None:
    bad = change(node(), labels={"no spaces": "1", "gone gone": None}, description="\0")

    assert bad is not None
    fields = [problem.field for problem in label_problems(bad)]
    assert fields == ["description", "labels.no spaces", "labels.gone gone"]
