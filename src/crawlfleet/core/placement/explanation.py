"""Explanation why a task does not run: for each node, all reasons against it.

The plan only counts rejections; here the same filters run again and their words are kept. Both use
the same verdicts, so a requirement that is feasible here is one that a plan places, and the counts
agree. The details of a large fleet begin with the nodes that came closest.

Lasting reasons come first: a node that is ill and also has no executor for the task type is no node
to wait for.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from crawlfleet.core.placement.columns import Rows
from crawlfleet.core.placement.filters import (
    LAST_FILTER,
    OPEN,
    class_of,
    class_reasons,
    filter_names,
    node_reasons,
    resource_reasons,
)
from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.model.explanation import SIZE, Cause, Explanation, NodeVerdict, Reason
from crawlfleet.model.node import Node
from crawlfleet.model.task import Requirement

MAX_DETAILS: Final = 100

_WORDS: Final = {
    "status": "not online",
    "health": "not healthy",
    "cluster": "in another cluster, or in one that takes no work",
    "task_type": "without an executor for the task type",
    "node_type": "of another type",
    "capabilities": "without the capabilities",
    "reservation": "kept for another project",
    SIZE: "too small for what it asks",
    "resources": "without the resources free",
}


def explain(
    requirement: Requirement,
    fleet: Fleet,
    rules: PlacementRules,
    *,
    project_id: str = "",
    most_details: int = MAX_DETAILS,
    hidden: Collection[str] | None = None,
) -> Explanation:
    """Explain for each node whether it would take a task with this requirement now, and why not.

    For a reader of the project alone, `hidden` are the clusters that the reader must not see: their
    nodes are left out, and other projects are not named.
    """
    names = filter_names(rules.filters)
    draft = fleet.draft()
    verdicts = fleet.verdicts(requirement, rules.filters, project_id)
    passed = np.flatnonzero(verdicts == OPEN)
    verdicts[passed] = len(names)
    feasible = draft.fitting(passed, requirement.demand, ahead=True)
    verdicts[feasible] = len(names) + 1
    lasting = fleet.lasting_verdicts(requirement, rules.filters, project_id)
    # A task that was accepted in a cluster is told of its nodes, whosever that is by now.
    out_of_sight = {*(hidden or ())} - {requirement.cluster_id}
    rows = np.arange(len(fleet))
    if out_of_sight:
        in_sight = [fleet.node_at(row).cluster_id not in out_of_sight for row in rows.tolist()]
        rows = rows[in_sight]
        verdicts, lasting = verdicts[rows], lasting[rows]
    feasible_nodes = int((verdicts == len(names) + 1).sum())
    counts = np.bincount(verdicts, minlength=len(names) + 2)[1:-1].tolist()
    rejected = {name: count for name, count in zip(names, counts, strict=True) if count}
    closest = rows[np.argsort(-verdicts, kind="stable")[:most_details]].tolist()
    lasts, passes = lasting != OPEN, (lasting == OPEN) & (verdicts <= len(names))
    causes = (
        *_causes((*names, SIZE), lasting[lasts], lasting=True),
        *_causes(names, verdicts[passes], lasting=False),
    )
    return Explanation(
        summary=_summary(len(rows), feasible_nodes, causes),
        feasible=feasible_nodes > 0,
        nodes=len(rows),
        feasible_nodes=feasible_nodes,
        rejected=rejected,
        causes=causes,
        details=tuple(
            NodeVerdict(
                node_id=node.id,
                name=node.name,
                reasons=tuple(
                    reasons_against(
                        node,
                        requirement,
                        fleet,
                        rules,
                        project_id=project_id,
                        names_projects=hidden is None,
                    )
                ),
            )
            for node in map(fleet.node_at, closest)
        ),
    )


def reasons_against(
    node: Node,
    requirement: Requirement,
    fleet: Fleet,
    rules: PlacementRules,
    *,
    project_id: str = "",
    names_projects: bool = True,
) -> Iterator[Reason]:
    """Yield the reasons against giving a node a task of the project with this requirement now.

    Other projects are named only with `names_projects`.
    """
    yield from node_reasons(node, is_idle=not fleet.count(node.id))
    if not fleet.accepts_work(node.cluster_id):
        yield Reason(
            "cluster",
            f"the cluster {node.cluster_id!r} takes no new work",
            "cluster_closed",
            {"cluster": node.cluster_id},
        )
    kind = class_of(node)
    yield from class_reasons(requirement, kind, rules.filters)
    owners = fleet.owners(kind)
    if owners and project_id not in owners and not names_projects:
        yield Reason("reservation", "the node is kept for another project", "kept_for_another")
    elif owners and project_id not in owners:
        yield Reason(
            "reservation",
            f"the node is kept for the project {', '.join(map(repr, owners))}",
            "kept",
            {"project": ", ".join(owners)},
        )
    yield from resource_reasons(requirement.demand, fleet.capacity(node.id), fleet.free(node.id))


def in_words(causes: Iterable[Cause]) -> str:
    """Return the causes as text, such as `2 not healthy, 1 not online`."""
    return ", ".join(
        f"{each.nodes} {_WORDS.get(each.code, f'rejected by {each.code}')}" for each in causes
    )


def _causes(names: Sequence[str], verdicts: Rows, *, lasting: bool) -> list[Cause]:
    """Return the number of nodes that each filter rejects, the largest first."""
    counts = np.bincount(verdicts, minlength=len(names) + 1)[1:].tolist()
    found = [
        Cause(code=name, nodes=count, lasting=lasting)
        for name, count in zip(names, counts, strict=True)
        if count
    ]
    return sorted(found, key=lambda each: -each.nodes)


def _summary(nodes: int, feasible: int, causes: Sequence[Cause]) -> str:
    if not nodes:
        return "There are no nodes."
    if feasible:
        return f"{feasible} of {nodes} nodes can take it now."
    advice = ""
    if all(each.lasting for each in causes):
        advice = " Add a node that can, or change what the task asks for."
    elif {each.code for each in causes} == {LAST_FILTER}:
        advice = " It waits until something is finished."
    return f"None of {nodes} nodes can take it now: {in_words(causes)}.{advice}"
