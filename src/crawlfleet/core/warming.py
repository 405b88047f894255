"""Which nodes have the environment that a task needs, and which should make it ahead.

Code of a bundle runs in an environment that takes seconds or minutes to make. Work goes first to
nodes that have it, and for a short while waits for them rather than begin where it would have to
be made: the patience bounds what that can cost.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from crawlfleet.core.feasibility import closed_by
from crawlfleet.core.fleet import Fleet
from crawlfleet.core.rules import Rules
from crawlfleet.model.bundle import CAPABILITY, Bundle
from crawlfleet.model.node import Node
from crawlfleet.model.task import Requirement

MOST_ASKED: Final = 4
"""Nodes that are asked at once to make one environment."""

Making = Mapping[str, Collection[str]]
"""The nodes that were asked to make environments and may still be at it, by digest."""


def readiness(digest: str) -> tuple[str, Any]:
    """What a node has done before that has this code ready."""
    return ("bundle", digest)


def hopeful(
    requirement: Requirement, fleet: Fleet, rules: Rules, making: Making, *, project_id: str = ""
) -> list[str]:
    """The nodes that have the environment, or make it now, and could take the task if they had
    room."""
    if not requirement.bundle:
        return []
    ids = dict.fromkeys(
        (*fleet.experienced(readiness(requirement.bundle)), *making.get(requirement.bundle, ()))
    )
    return fleet.promising(ids, requirement, rules.filters, project_id)


def to_ask_for_work(
    requirement: Requirement,
    fleet: Fleet,
    rules: Rules,
    making: Making,
    *,
    tasks: int,
    project_id: str = "",
) -> list[str]:
    """Which nodes should make the environment for so many tasks that wait: as many as these need
    slots, the emptiest first, beside those that have it or make it already."""
    has = hopeful(requirement, fleet, rules, making, project_id=project_id)
    asked = len(making.get(requirement.bundle, ()))
    others = fleet.promising({*fleet.ids()}.difference(has), requirement, rules.filters, project_id)
    needed, chosen = tasks - sum(_room(id, requirement, fleet) for id in has), list[str]()
    for id in _emptiest(others, fleet):
        if needed <= 0 or asked + len(chosen) >= MOST_ASKED:
            break
        if room := _room(id, requirement, fleet):
            chosen.append(id)
            needed -= room
    return chosen


def to_ask_for_bundle(bundle: Bundle, nodes: Iterable[Node], fleet: Fleet) -> list[str]:
    """Which nodes should make the environment of the present version of a bundle before anybody
    asks for it: those that have another version, or else the emptiest one."""
    able = [
        node.id
        for node in nodes
        if node.capabilities.get(CAPABILITY) and closed_by(node) <= 0 and node.id in fleet
    ]
    earlier = {
        id
        for version in bundle.versions
        if version.number != bundle.current
        for id in fleet.experienced(readiness(version.digest))
    }
    used = [id for id in able if id in earlier]
    return _emptiest(used or able, fleet)[: MOST_ASKED if used else 1]


def _room(id: str, requirement: Requirement, fleet: Fleet) -> int:
    """How many such tasks find a slot on a node."""
    return math.floor(fleet.free(id).slots / max(requirement.demand.slots, 1.0))


def _emptiest(ids: Sequence[str], fleet: Fleet) -> list[str]:
    return sorted(ids, key=lambda id: (-fleet.free(id).slots, fleet.load(id), id))
