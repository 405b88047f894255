"""Nodes that something is due for: draining against a deadline, or not well."""

from collections.abc import Callable

from crawlfleet.core.nodes.health import NO_NEW_WORK
from crawlfleet.model.node import Node


class NodesDue:
    """Nodes with a due time: few of many, so that timers need not look at every node."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.nodes: dict[str, Node] = {}

    def put(self, node: Node) -> None:
        """Put a node that is new or has changed."""
        if node.drain_until is not None or node.health in NO_NEW_WORK:
            self.nodes[node.id] = node
            self._wake()
        else:
            self.drop(node.id)

    def drop(self, node_id: str) -> None:
        """The node is gone."""
        self.nodes.pop(node_id, None)
