"""The keys and tokens in the store, found by the hash of the secret that a caller shows."""

from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node


class Keyring:
    """Index of keys and nodes by hash. A key it returns may have expired or been revoked."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}
        """Keys by id."""
        self._by_hash: dict[str, ApiKey] = {}
        self._nodes: dict[str, Node] = {}
        self._node_of: dict[str, str] = {}

    def key(self, secret_hash: str) -> ApiKey | None:
        """Return the key one of whose secrets has this hash, or `None`."""
        return self._by_hash.get(secret_hash)

    def node(self, token_hash: str) -> Node | None:
        """Return the node one of whose tokens has this hash, or `None`."""
        return self._nodes.get(self._node_of.get(token_hash, ""))

    def put_key(self, key: ApiKey) -> None:
        """Put a key that is new or has changed."""
        before = self.keys.get(key.id)
        for gone in before.hashes if before else ():
            self._by_hash.pop(gone, None)
        self.keys[key.id] = key
        self._by_hash.update(dict.fromkeys(key.hashes, key))

    def drop_node(self, node_id: str) -> None:
        """Drop a node and its tokens."""
        node = self._nodes.pop(node_id, None)
        for gone in (node.token_hash, node.old_token_hash) if node else ():
            self._node_of.pop(gone, None)

    def put_node(self, node: Node) -> None:
        """Put a node that is new or has changed."""
        before = self._nodes.get(node.id)
        for gone in (before.token_hash, before.old_token_hash) if before else ():
            self._node_of.pop(gone, None)
        self._nodes[node.id] = node
        for token_hash in filter(None, (node.token_hash, node.old_token_hash)):
            self._node_of[token_hash] = node.id
