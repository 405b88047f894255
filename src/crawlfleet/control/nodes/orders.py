"""Orders about nodes, from people or from the nodes: drain, maintain, resume, leave, remove.

An order that was carried out before is no error. A removed node leaves every list at once, and its
token is worth nothing; its row and history stay in the store for a while.
"""

import msgspec

from crawlfleet.control.leases.service import Leases
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import expect_version, has_changed
from crawlfleet.core.tasks.lifecycle import NodeTrigger, move_node
from crawlfleet.errors import Conflict
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.node import CONNECTED, Node, NodeStatus
from crawlfleet.ports.system import System


class NodeOrders:
    """Carries out orders about nodes. Raises `NotFound` for an unknown node."""

    def __init__(self, *, state: FleetState, nodes: Nodes, leases: Leases, system: System) -> None:
        self._state = state
        self._nodes = nodes
        self._leases = leases
        self._system = system

    async def drain(
        self,
        node_id: str,
        *,
        by: str,
        deadline_s: float | None = None,
        if_version: int | None = None,
    ) -> Node:
        """Stop new work on the node, let running work finish, then take it offline.

        Work that still runs after `deadline_s` is taken back. Draining anew sets another deadline.
        """
        until = None if deadline_s is None else self._system.now() + deadline_s
        node = await self._order(
            node_id,
            NodeTrigger.DRAIN_ORDERED,
            NodeStatus.DRAINING,
            by,
            if_version,
            drain_until=until,
        )
        if until is None or node.drain_until == until:
            return node
        now = self._system.now()
        changed = msgspec.structs.replace(
            node, drain_until=until, version=node.version + 1, updated_at=now
        )
        event = Event(
            kind="node.changed", subject=node_id, at=now, cause=f"another deadline, set by {by}"
        )
        if (await self._state.commit([Change(nodes=(changed,), events=(event,))]))[0] is not None:
            raise has_changed(node_id)
        return changed

    async def maintain(self, node_id: str, *, by: str, if_version: int | None = None) -> Node:
        """Stop new work on the node; it stays connected until resumed."""
        trigger = NodeTrigger.MAINTENANCE_ORDERED
        return await self._order(node_id, trigger, NodeStatus.MAINTENANCE, by, if_version)

    async def resume(self, node_id: str, *, by: str, if_version: int | None = None) -> Node:
        """Let the node take work again, after `drain` or `maintain`."""
        return await self._order(node_id, NodeTrigger.RESUMED, NodeStatus.ONLINE, by, if_version)

    async def unregister(
        self,
        node_id: str,
        *,
        by: str,
        session_id: str | None = None,
        if_version: int | None = None,
    ) -> Node:
        """End the node's session now; its work goes back to the queue.

        A request from an earlier session than the present one changes nothing.
        """
        node = await self._nodes.present(node_id)
        if node.status is not NodeStatus.OFFLINE:
            expect_version(node_id, node.version, if_version)
        if session_id is not None and session_id != node.session_id:
            return node
        if node.session_id is not None:
            await self._leases.end_session(
                node.session_id, cause=f"unregistered by {by}", trigger=NodeTrigger.LEFT
            )
            return self._nodes.get(node_id)
        return await self._order(node_id, NodeTrigger.LEFT, NodeStatus.OFFLINE, by)

    async def remove(self, node_id: str, *, by: str, if_version: int | None = None) -> Node:
        """Forget a node that is gone; `Conflict` for one that is connected."""

        async def decide() -> tuple[Node, Change]:
            node = await self._nodes.present(node_id)
            expect_version(node_id, node.version, if_version)
            if node.status in CONNECTED:
                raise Conflict(f"{node_id} is {node.status}: drain or unregister it first")
            change = removal(node, now=self._system.now(), cause=f"removed by {by}")
            return change.nodes[0], change

        return await self._state.decide(node_id, decide)

    async def _order(
        self,
        node_id: str,
        trigger: NodeTrigger,
        target: NodeStatus,
        by: str,
        if_version: int | None = None,
        *,
        drain_until: float | None = None,
    ) -> Node:
        """Carry out an order; one that was carried out before is no error."""

        async def decide() -> tuple[Node, Change | None]:
            node = await self._nodes.present(node_id)
            if node.status is target:
                return node, None
            expect_version(node_id, node.version, if_version)
            moved = move_node(
                node,
                trigger,
                now=self._system.now(),
                cause=f"{trigger} by {by}",
                drain_until=drain_until,
            )
            if moved is None:
                raise Conflict(f"{node_id} is {node.status}: '{trigger}' does not apply")
            return moved[0], Change(nodes=(moved[0],), events=(moved[1],))

        return await self._state.decide(node_id, decide)


def removal(node: Node, *, now: float, cause: str) -> Change:
    """Return the change that removes a node."""
    gone = msgspec.structs.replace(node, archived_at=now, updated_at=now, version=node.version + 1)
    event = Event(
        kind="node.removed",
        subject=node.id,
        at=now,
        cause=cause,
        from_state=str(node.status),
        details={"name": node.name},
    )
    return Change(nodes=(gone,), events=(event,))
