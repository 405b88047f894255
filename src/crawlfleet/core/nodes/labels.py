"""Labels and descriptions of nodes: values set by operators override those that a node announces.

An override outlasts the node's restarts. A label that an operator removed stays away even if the
node announces it again, until an operator sets it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from crawlfleet.core.nodes.registration import labels_problems
from crawlfleet.core.text.names import description_problems
from crawlfleet.errors import FieldProblem
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node
from crawlfleet.model.requests import NodeChangeRequest


def labelled(announced: Mapping[str, str], overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return the labels that a node announces, with the overrides of operators applied."""
    merged = {**announced, **overrides}
    return {name: value for name, value in merged.items() if value is not None}


def overridden(announced: str, override: str | None) -> str:
    """Return the description of a node: the override, or else the announced one."""
    return announced if override is None else override


def changed_node(
    node: Node, request: NodeChangeRequest, *, now: float, by: str
) -> tuple[Node, Event] | None:
    """Return the node after an operator's change, and the event about it; `None` if it is like that
    already."""
    overrides = {**node.label_overrides, **request.labels}
    description = node.description_override if request.description is None else request.description
    labels = labelled(node.labels, overrides)
    text = overridden(node.description, description)
    kept = overrides == node.label_overrides and description == node.description_override
    if kept and labels == node.labels and text == node.description:
        return None
    changed = msgspec.structs.replace(
        node,
        labels=labels,
        description=text,
        label_overrides=overrides,
        description_override=description,
        updated_at=now,
        version=node.version + 1,
    )
    details: dict[str, Any] = {"labels": request.labels} if request.labels else {}
    if request.description is not None:
        details["description"] = request.description
    return changed, Event(
        kind="node.changed", subject=node.id, at=now, cause=f"changed by {by}", details=details
    )


def label_problems(node: Node) -> Iterator[FieldProblem]:
    """Yield the problems of a node's labels and description."""
    yield from description_problems(node.description)
    yield from labels_problems(node.labels)
    # The others are among the labels.
    yield from labels_problems(dict.fromkeys(node.label_overrides.keys() - node.labels, ""))
