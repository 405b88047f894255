"""The tokens of nodes: replaced without interruption, or revoked at once.

A heartbeat's reply asks the node (`token_due`) to fetch itself a new token, to keep it, and to go
on with that. The old one stays valid until the new one was used for the first time, or until its
grace is over; so whatever gets lost on the way, the node has a valid token, and asks again.
"""

import hmac
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.control.access.tokens import hash_secret, make_secret
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import expect_version
from crawlfleet.core.tasks.lifecycle import NodeTrigger, move_node
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, Session
from crawlfleet.model.wire.node_protocol import NodeToken
from crawlfleet.ports.system import System

GRACE_S: Final = 600.0


class NodeTokens:
    """Renews and revokes the tokens of nodes."""

    def __init__(self, *, state: FleetState, leases: Leases, system: System) -> None:
        self._state = state
        self._leases = leases
        self._system = system
        self._confirmed: dict[str, str] = {}
        """Hash of a node's newest token, by node that has used it; not saved in the store yet."""

    async def rotate(self, node_id: str, *, by: str, if_version: int | None = None) -> Node:
        """Have the node fetch itself a new token, with its next heartbeat."""
        node = await self._living(node_id)
        if self.is_due(node_id):
            return node
        expect_version(node_id, node.version, if_version)
        node = _settled(node) if self._is_confirmed(node) else node
        return await self._put(node, "token_due", f"ordered by {by}", token_due=True)

    async def renew(self, node_id: str) -> NodeToken:
        """Return a new token. A token from an earlier renewal that was never used is dropped.

        A call that decides on an outdated state of the node is refused: of two renewals that
        overlap, the one whose reply the node awaits counts.
        """
        node = await self._living(node_id)
        token = make_secret(self._system)
        if node.old_token_hash and not self._is_confirmed(node):
            # Its answer must have got lost: the node still uses the one before.
            old, until = node.old_token_hash, node.old_token_until
        else:
            old, until = node.token_hash, self._system.now() + GRACE_S
        await self._put(
            node,
            "token_renewed",
            "asked for by the node",
            token_hash=hash_secret(token),
            old_token_hash=old,
            old_token_until=until,
        )
        return NodeToken(node_id=node_id, node_token=token, old_valid_until=until)

    async def revoke(self, node_id: str, *, by: str, if_version: int | None = None) -> Node:
        """End the node: its tokens are worth nothing, its session ends, its work goes back."""
        cause = f"revoked by {by}"

        async def decide() -> tuple[tuple[Node, str | None], Change | None]:
            node = await self._node(node_id)
            if node.revoked_at is not None:
                return (node, None), None
            expect_version(node_id, node.version, if_version)
            change = self._revoked(node, cause)
            return (change.nodes[0], node.session_id), change

        try:
            revoked, session_id = await self._state.decide(node_id, decide)
        except Conflict:
            raise self._state.reload(f"{node_id} cannot be revoked") from None
        if session_id is not None:
            await self._leases.give_back(session_id, cause=cause)
        return revoked

    def is_due(self, node_id: str) -> bool:
        """Return whether the node should fetch itself a new token."""
        node = self._state.nodes.get(node_id)
        return node is not None and node.token_due and not self._is_confirmed(node)

    def is_good(self, node: Node, digest: str) -> bool:
        """Return whether this token of the node is valid; using the newest one confirms it."""
        if node.revoked_at is not None:
            return False
        if hmac.compare_digest(digest, node.token_hash):
            if node.old_token_hash:
                self._confirmed[node.id] = digest
            return True
        return not self._is_confirmed(node) and self._system.now() < node.old_token_until

    @property
    def has_news(self) -> bool:
        """Return whether there are confirmed tokens to save in the store."""
        return bool(self._confirmed)

    def news(self) -> list[Change]:
        """Return the changes to commit: nodes without the old tokens that are out of use."""
        nodes = [self._state.nodes[id] for id in self._confirmed]
        self._confirmed = {node.id: node.token_hash for node in nodes if self._is_confirmed(node)}
        now = self._system.now()
        return [
            _told(
                _next(_settled(self._state.nodes[id]), now),
                "token_used",
                "the node uses its new token",
                now,
            )
            for id in self._confirmed
        ]

    def forget(self, told: Sequence[Change]) -> None:
        """Drop the confirmations that these changes have saved in the store."""
        for change in told:
            self._confirmed.pop(change.nodes[0].id, None)

    def _is_confirmed(self, node: Node) -> bool:
        return bool(node.old_token_hash) and self._confirmed.get(node.id) == node.token_hash

    async def _node(self, node_id: str) -> Node:
        if node_id not in self._state.nodes:
            # It may have registered at another master a moment ago.
            await self._state.refresh.nodes([node_id])
        node = self._state.nodes.get(node_id)
        if node is None:
            raise NotFound("node", node_id)
        return node

    async def _living(self, node_id: str) -> Node:
        node = await self._node(node_id)
        if node.revoked_at is not None:
            raise Conflict(f"{node_id} was revoked; let it join anew with a join token")
        return node

    async def _put(self, node: Node, what: str, cause: str, **fields: object) -> Node:
        now = self._system.now()
        changed = _next(msgspec.structs.replace(node, **fields), now)
        if (await self._state.commit([_told(changed, what, cause, now)]))[0] is not None:
            raise Conflict(f"{node.id} has just changed; look at it and try again")
        return changed

    def _revoked(self, node: Node, cause: str) -> Change:
        now = self._system.now()
        fields = {"session_id": None, "revoked_at": now, "token_due": False}
        moved = move_node(node, NodeTrigger.LEFT, now=now, cause=cause, **fields)
        gone = moved[0] if moved else _next(msgspec.structs.replace(node, **fields), now)
        event = Event(kind="node.revoked", subject=node.id, at=now, cause=cause)
        session = self._state.sessions.get(node.session_id or "")
        ended = () if session is None else (_ended(session, now, cause),)
        events = (moved[1], event) if moved else (event,)
        return Change(nodes=(gone,), sessions=ended, events=events)


def _told(node: Node, what: str, cause: str, now: float) -> Change:
    """A node and the event by which other masters learn of its tokens."""
    event = Event(kind=f"node.{what}", subject=node.id, at=now, cause=cause)
    return Change(nodes=(node,), events=(event,))


def _ended(session: Session, now: float, cause: str) -> Session:
    return msgspec.structs.replace(
        session, ended_at=now, end_cause=cause, version=session.version + 1
    )


def _settled(node: Node) -> Node:
    """The node when its newest token is the only one."""
    return msgspec.structs.replace(node, old_token_hash="", old_token_until=0.0, token_due=False)


def _next(node: Node, now: float) -> Node:
    return msgspec.structs.replace(node, updated_at=now, version=node.version + 1)
