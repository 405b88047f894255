"""The keys and tokens that the store holds, found by the hash of what somebody shows."""

from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node


class Keyring:
    """One look-up for each who asks. What is found may be worth nothing any more: see for that."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}
        """By their ids."""
        self._by_hash: dict[str, ApiKey] = {}
        self._nodes: dict[str, Node] = {}
        self._node_of: dict[str, str] = {}

    def key(self, secret_hash: str) -> ApiKey | None:
        """The key one of whose secrets has this hash."""
        return self._by_hash.get(secret_hash)

    def node(self, token_hash: str) -> Node | None:
        """The node one of whose tokens has this hash."""
        return self._nodes.get(self._node_of.get(token_hash, ""))

    def put_key(self, key: ApiKey) -> None:
        """Take in a key that is new or has changed."""
        before = self.keys.get(key.id)
        for gone in before.hashes if before else ():
            self._by_hash.pop(gone, None)
        self.keys[key.id] = key
        self._by_hash.update(dict.fromkeys(key.hashes, key))

    def drop_node(self, node_id: str) -> None:
        """Forget a node and its tokens."""
        node = self._nodes.pop(node_id, None)
        for gone in (node.token_hash, node.old_token_hash) if node else ():
            self._node_of.pop(gone, None)

    def put_node(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        before = self._nodes.get(node.id)
        for gone in (before.token_hash, before.old_token_hash) if before else ():
            self._node_of.pop(gone, None)
        self._nodes[node.id] = node
        for token_hash in filter(None, (node.token_hash, node.old_token_hash)):
            self._node_of[token_hash] = node.id
