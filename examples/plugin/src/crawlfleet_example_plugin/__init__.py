"""A strategy and a filter of one's own: copy this package and change the two functions."""

from crawlfleet.plugin import NodeClass, NodeColumns, Ranking, Requirement


def most_memory(nodes: NodeColumns, requirement: Requirement, seed: int) -> Ranking:
    """The node with the most free memory first; each task takes its part of it."""
    return Ranking(-nodes.free("memory_mb"), requirement.demand.memory_mb)


def same_owner(node: NodeClass, requirement: Requirement) -> str | None:
    """Nodes with the label `owner` run only work whose content feature `owner` is the same."""
    owner = node.label("owner")
    asked = dict(requirement.content_features).get("owner")
    if owner is None or owner == asked:
        return None
    return f"the node belongs to {owner!r}, the work to {asked!r}"
