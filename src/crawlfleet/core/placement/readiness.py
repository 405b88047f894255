"""Which nodes have which environments ready, as far as is known.

Kept apart from what nodes have done before, and bounded for each node by itself: what many nodes
have must not make anybody forget what one of them has.
"""

from collections.abc import Collection, Iterable

from crawlfleet.model.bundle import MOST_TOLD


class Readiness:
    """Digests by node, and nodes by digest."""

    def __init__(self) -> None:
        self._digests: dict[str, dict[str, None]] = {}
        """Of each node, the one heard of last at the end."""
        self._nodes: dict[str, dict[str, None]] = {}
        self._tell: set[str] = set()

    def nodes(self, digest: str) -> Collection[str]:
        """Those that have it."""
        return self._nodes.get(digest, {}).keys()

    def has(self, node_id: str, digest: str) -> bool:
        return digest in self._digests.get(node_id, {})

    def tells(self, node_id: str) -> bool:
        """Whether a node ever said what it has; those of earlier versions do not."""
        return node_id in self._tell

    def add(self, node_id: str, digest: str) -> None:
        """A node has one more; of too many, the one not heard of for longest is forgotten."""
        digests = self._digests.setdefault(node_id, {})
        digests.pop(digest, None)
        digests[digest] = None
        self._nodes.setdefault(digest, {})[node_id] = None
        if len(digests) > MOST_TOLD:
            self._take(node_id, next(iter(digests)))

    def replace(self, node_id: str, digests: Iterable[str]) -> bool:
        """A node says that it has these, and no others; whether that was not known."""
        self._tell.add(node_id)
        told = dict.fromkeys(digests)
        before = self._digests.get(node_id, {}).keys()
        is_news = before != told.keys()
        for digest in before - told.keys():
            self._take(node_id, digest)
        for digest in told:
            self.add(node_id, digest)
        return is_news

    def drop(self, node_id: str) -> None:
        """The node is gone."""
        self.replace(node_id, ())
        self._digests.pop(node_id, None)
        self._tell.discard(node_id)

    def _take(self, node_id: str, digest: str) -> None:
        del self._digests[node_id][digest]
        nodes = self._nodes[digest]
        del nodes[node_id]
        if not nodes:
            del self._nodes[digest]
