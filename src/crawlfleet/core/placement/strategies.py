"""Strategies of placement: rank the nodes that can take a group of tasks.

A strategy is a plain function. It gets the candidates as columns and returns a score for each, the
lower the better, and a step, by which the score rises with each task of the group that the node
takes. The plan fills the nodes by these numbers and checks their resources itself, so a strategy
can rank badly but never overcommit. Ties go to the node known longest.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from crawlfleet.core.placement.columns import Floats, NodeColumns
from crawlfleet.core.placement.filters import NodeClass, Pairs, shortfall
from crawlfleet.core.placement.regions import distance_km
from crawlfleet.model.task import Requirement

TIER: Final = 1000.0
"""Score of one tier, more than any load, so that load never outweighs a tier."""
DONE_BEFORE: Final = 0.5
"""Score of experience with a feature; being able to handle it scores one."""


class Ranking(NamedTuple):
    """Result of a strategy: scores and steps of the candidates, in their order."""

    score: Floats
    """Score of each candidate, the lower the better; NaN and infinity come last."""
    step: Floats | float = 0.0
    """Amount by which a node's score rises with each task that it takes. Zero or less fills the
    best node up before the next is used."""


Strategy = Callable[[NodeColumns, Requirement, int], Ranking]
"""Function of the candidates, the requirement of the tasks, and a seed for random choices."""


def least_loaded(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node that would be least loaded with the task: as measured or as reserved."""
    step = nodes.share_of(requirement.demand)
    return Ranking(np.maximum(nodes.load, nodes.share) + step, step)


def least_tasks(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node with the fewest executions; ties by load."""
    load = least_loaded(nodes, requirement, seed)
    return Ranking(nodes.active * TIER + load.score, load.step + TIER)


def round_robin(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node that has waited longest for work."""
    turn = nodes.turn
    everyone_else_first = float(turn.max() - turn.min()) + 1.0
    return Ranking(turn, everyone_else_first)


def weighted(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Spread executions in proportion to the nodes' weights (label `weight`, else CPU cores)."""
    step = 1.0 / nodes.weight
    return Ranking((nodes.active + 1.0) * step, step)


def random(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Draw any node; each is drawn once before one is drawn again."""
    return Ranking(np.random.default_rng(seed).random(len(nodes)), 1.0)


def geo_location(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node nearest to the task's region; ties, and all nodes when it has none, by
    load."""
    target = requirement.target_region
    load = least_loaded(nodes, requirement, seed)
    if target is None:
        return load
    tier = nodes.by_class(
        ("geo_location", target), lambda kind: round(distance_km(kind.region, target))
    )
    return Ranking(tier * TIER + load.score, load.step)


def content_based(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node that can handle, and has handled, most features of the content; ties by
    load."""
    features = requirement.content_features
    load = least_loaded(nodes, requirement, seed)
    if not features:
        return load
    match = nodes.by_class(("content_based", features), lambda kind: _matches(features, kind))
    for feature in features:
        match[nodes.has_done(feature)] += DONE_BEFORE
    return Ranking(load.score - match * TIER, load.step)


def bin_pack(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """Prefer the node that is fullest with the task, and fill it up first, so that others stay
    empty."""
    return Ranking(-(nodes.share + nodes.share_of(requirement.demand)), 0.0)


BUILT_IN: Final[Mapping[str, Strategy]] = {
    "least_loaded": least_loaded,
    "least_tasks": least_tasks,
    "round_robin": round_robin,
    "weighted": weighted,
    "random": random,
    "geo_location": geo_location,
    "content_based": content_based,
    "bin_pack": bin_pack,
}


def _matches(features: Pairs, kind: NodeClass) -> float:
    """Return how many features a node declares: `technology` is among its `technologies`."""
    return float(sum(_can_do(name, value, kind) for name, value in features))


def _can_do(name: str, value: object, kind: NodeClass) -> bool:
    offered = (kind.capability(word) for word in (name, f"{name}s", f"{name[:-1]}ies"))
    return any(has is not None and shortfall(value, has) is None for has in offered)
