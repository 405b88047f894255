"""Environments of bundles: which nodes have one, and which nodes should make it ahead.

An environment takes seconds or minutes to make. Tasks go first to nodes that have it, and for a
short while wait for these rather than start where it would have to be made: the patience bounds the
cost of waiting.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from crawlfleet.core.placement.filters import class_of, closed_by
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.model.bundle import CAPABILITY, Bundle
from crawlfleet.model.node import Node
from crawlfleet.model.task import Requirement

MAX_ASKED: Final = 4
"""Limit of nodes that make the same environment at once."""

Making = Mapping[str, Collection[str]]
"""Nodes that were asked to make environments and may still be making them, by digest."""


def hopeful(
    requirement: Requirement,
    fleet: Fleet,
    rules: PlacementRules,
    making: Making,
    *,
    project_id: str = "",
) -> list[str]:
    """Return the nodes that have the environment, or make it now, and could take the task if they
    had room."""
    if not requirement.bundle:
        return []
    digest = requirement.bundle
    ids = dict.fromkeys((*fleet.ready(digest), *making.get(digest, ())))
    return fleet.promising(ids, requirement, rules.filters, project_id)


def to_ask_for_work(
    requirement: Requirement,
    fleet: Fleet,
    rules: PlacementRules,
    making: Making,
    *,
    tasks: int,
    among: Collection[str],
    project_id: str = "",
) -> list[str]:
    """Return which of the nodes in `among` should make the environment for this number of waiting
    tasks: as many as the tasks need slots beside the nodes that have it or make it already, the
    emptiest first."""
    has = hopeful(requirement, fleet, rules, making, project_id=project_id)
    asked = len(making.get(requirement.bundle, ()))
    others = fleet.promising({*among}.difference(has), requirement, rules.filters, project_id)
    needed, chosen = tasks - sum(_room(id, requirement, fleet) for id in has), list[str]()
    for id in _emptiest(others, fleet):
        if needed <= 0 or asked + len(chosen) >= MAX_ASKED:
            break
        if room := _room(id, requirement, fleet):
            chosen.append(id)
            needed -= room
    return chosen


def to_ask_for_bundle(bundle: Bundle, nodes: Iterable[Node], fleet: Fleet) -> list[str]:
    """Return the nodes that should make the environment of a bundle's current version before a task
    needs it: those with another version, or else the emptiest one. Nodes reserved for other
    projects are never asked: they need not run code of this project."""
    able = [node.id for node in nodes if _may_run(bundle, node, fleet)]
    earlier = {
        id
        for version in bundle.versions
        if version.number != bundle.current
        for id in fleet.ready(version.digest)
    }
    used = [id for id in able if id in earlier]
    return _emptiest(used or able, fleet)[: MAX_ASKED if used else 1]


def _may_run(bundle: Bundle, node: Node, fleet: Fleet) -> bool:
    """Return whether a node takes such work now, whether or not it has room."""
    if not node.capabilities.get(CAPABILITY) or closed_by(node) > 0 or node.id not in fleet:
        return False
    owners = fleet.owners(class_of(node))
    return fleet.accepts_work(node.cluster_id) and (not owners or bundle.project_id in owners)


def _room(id: str, requirement: Requirement, fleet: Fleet) -> int:
    """Return the number of such tasks that find a slot on a node."""
    return math.floor(fleet.free(id).slots / max(requirement.demand.slots, 1.0))


def _emptiest(ids: Sequence[str], fleet: Fleet) -> list[str]:
    return sorted(ids, key=lambda id: (-fleet.free(id).slots, fleet.load(id), id))
