"""Why a task is not running: for each node, everything that speaks against it.

The plan only counts rejections; here the same filters are asked again and their words kept. Both
use the same verdicts, so a requirement that is called feasible here is one that a plan places,
and the counts agree. The details of a large fleet begin with the nodes that came closest.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from crawlfleet.core.feasibility import (
    LAST_FILTER,
    OPEN,
    class_of,
    class_reasons,
    filter_names,
    node_reasons,
    resource_reasons,
)
from crawlfleet.core.fleet import Fleet
from crawlfleet.core.rules import Rules
from crawlfleet.model.explanation import Explanation, NodeVerdict, Reason
from crawlfleet.model.node import Node
from crawlfleet.model.task import Requirement

MOST_DETAILS: Final = 100

_WORDS: Final = {
    "status": "not online",
    "health": "not healthy",
    "cluster": "in another cluster, or in one that takes no work",
    "task_type": "without an executor for the task type",
    "node_type": "of another type",
    "capabilities": "without the capabilities",
    "resources": "without the resources free",
}


def explain(
    requirement: Requirement, fleet: Fleet, rules: Rules, *, most_details: int = MOST_DETAILS
) -> Explanation:
    """What each node says to a task that asks for this, now."""
    names = filter_names(rules.filters)
    draft = fleet.draft()
    verdicts = fleet.verdicts(requirement, rules.filters)
    passed = np.flatnonzero(verdicts == OPEN)
    verdicts[passed] = len(names)
    feasible = draft.fitting(passed, requirement.demand, ahead=True)
    verdicts[feasible] = len(names) + 1
    counts = np.bincount(verdicts, minlength=len(names) + 2)[1:-1].tolist()
    rejected = {name: count for name, count in zip(names, counts, strict=True) if count}
    closest = np.argsort(-verdicts, kind="stable")[:most_details].tolist()
    return Explanation(
        summary=_summary(len(fleet), len(feasible), rejected),
        feasible=len(feasible) > 0,
        nodes=len(fleet),
        feasible_nodes=len(feasible),
        rejected=rejected,
        details=tuple(
            NodeVerdict(
                node_id=node.id,
                name=node.name,
                reasons=tuple(reasons_against(node, requirement, fleet, rules)),
            )
            for node in map(fleet.node_at, closest)
        ),
    )


def reasons_against(
    node: Node, requirement: Requirement, fleet: Fleet, rules: Rules
) -> Iterator[Reason]:
    """Everything that speaks against giving a node a task that asks for this, now."""
    yield from node_reasons(node, is_idle=not fleet.count(node.id))
    if not fleet.accepts_work(node.cluster_id):
        yield Reason("cluster", f"the cluster {node.cluster_id!r} takes no new work")
    yield from class_reasons(requirement, class_of(node), rules.filters)
    yield from resource_reasons(requirement.demand, fleet.capacity(node.id), fleet.free(node.id))


def _summary(nodes: int, feasible: int, rejected: dict[str, int]) -> str:
    if not nodes:
        return "There are no nodes."
    if feasible:
        return f"{feasible} of {nodes} nodes can take it now."
    most_first = sorted(rejected.items(), key=lambda pair: -pair[1])
    parts = [f"{count} {_WORDS.get(name, f'rejected by {name}')}" for name, count in most_first]
    advice = ""
    if set(rejected) == {LAST_FILTER}:
        advice = " It waits until something is finished."
    return f"None of {nodes} nodes can take it now: {', '.join(parts)}.{advice}"
