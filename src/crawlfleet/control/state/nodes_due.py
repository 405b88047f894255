"""Nodes that something is due for: draining against a deadline, or not well."""

from collections.abc import Callable

from crawlfleet.core.nodes.health import NO_NEW_WORK
from crawlfleet.model.node import Node


class NodesDue:
    """Few of many, so that whoever watches the clock need not look at every node."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.nodes: dict[str, Node] = {}

    def put(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        if node.drain_until is not None or node.health in NO_NEW_WORK:
            self.nodes[node.id] = node
            self._wake()
        else:
            self.drop(node.id)

    def drop(self, node_id: str) -> None:
        """The node is gone."""
        self.nodes.pop(node_id, None)
