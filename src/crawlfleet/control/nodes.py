"""Nodes and their sessions: coming, staying alive, being told what to do, and leaving.

A session is the node's right to hold leases. It ends when the node registers anew, leaves, is
drained empty, or falls silent; with it end all its executions, and their tasks go back to the
queue. The master's clock alone decides; what the node says under an ended session is stale.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from crawlfleet.control.history import NodeHistory
from crawlfleet.control.keys import Principal
from crawlfleet.control.leases import TRIES, Leases, stop_order
from crawlfleet.control.secrets import hash_secret, make_secret
from crawlfleet.control.state import FleetState
from crawlfleet.core.admission import MAX_PROBLEMS
from crawlfleet.core.keys import status_of
from crawlfleet.core.labels import changed_node, label_problems, labelled, overridden
from crawlfleet.core.lifecycle import NodeTrigger, move_node
from crawlfleet.core.registration import heartbeat_problems, registration_problems
from crawlfleet.core.resources import parse_resources
from crawlfleet.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    Refused,
    Unauthenticated,
)
from crawlfleet.model.change import Change
from crawlfleet.model.ids import NODE, SESSION, make_id
from crawlfleet.model.key import ApiKey
from crawlfleet.model.messages import Heartbeat, HeartbeatReply, Registered, Registration
from crawlfleet.model.node import Node, NodeStatus, Session
from crawlfleet.model.project import DEFAULT_CLUSTER
from crawlfleet.model.requests import NodeChangeRequest
from crawlfleet.model.settings import SessionSettings
from crawlfleet.model.task import ExecutionStatus
from crawlfleet.ports.system import System

DEFAULT_SLOTS: Final = 4.0
ANEW: Final = "the node registered anew"


class Nodes:
    """Registers nodes, keeps their sessions, and carries out what people order about them."""

    def __init__(
        self,
        *,
        state: FleetState,
        leases: Leases,
        history: NodeHistory,
        system: System,
        settings: SessionSettings,
    ) -> None:
        self._state = state
        self._leases = leases
        self._history = history
        self._system = system
        self._settings = settings
        self._joining = asyncio.Lock()

    async def register(self, registration: Registration, *, by: Principal) -> Registered:
        """Make or welcome back a node, and open a new session for it; its old one ends.

        Raises `InvalidRequest`, or `Refused` for a node that claims to be another, or to belong
        elsewhere than its join token says.
        """
        registration = self._placed(registration, by)
        _accept(registration_problems(registration, self._state.clusters))
        if by.node_id is not None or self._shown(by) is None:
            return await self._register(registration, by, None)
        # One after another: each counts one more use than the one before.
        async with self._joining:
            for _ in range(TRIES):
                shown = self._shown(by)
                status = status_of(shown, now=self._system.now()) if shown else "unknown"
                if status != "live":
                    raise Unauthenticated(f"this join token is {status}", status)
                try:
                    return await self._register(registration, by, shown)
                except _Outdated:
                    await self._state.catch_up()
        raise Conflict("the join token is changing too quickly; try again")

    async def _register(
        self, registration: Registration, by: Principal, shown: ApiKey | None
    ) -> Registered:
        """As `register`; counts a use of the join token that was shown in the same commit."""
        now = self._system.now()
        node, token = self._identity(registration, by, now)
        session = Session(
            id=make_id(SESSION, now, self._system.entropy),
            node_id=node.id,
            started_at=now,
            deadline=now + self._settings.timeout_s,
            last_heartbeat=now,
        )
        moved = move_node(
            self._described(node, registration),
            NodeTrigger.REGISTERED,
            now=now,
            cause=f"registered by {by.name}",
            session_id=session.id,
        )
        if moved is None:
            raise Conflict(f"{node.id} cannot register while it is {node.status}")
        earlier = self._state.sessions.get(node.session_id or "")
        ended = () if earlier is None else (_ended(earlier, now, ANEW),)
        change = Change(
            nodes=(moved[0],),
            sessions=(*ended, session),
            events=(moved[1],),
            keys=() if shown is None else (_used(shown),),
        )
        refusal = (await self._state.commit([change]))[0]
        if refusal is not None and shown is not None and refusal.subject == shown.id:
            raise _Outdated
        if refusal is not None:
            raise Conflict(f"{node.id} has just changed, or registers twice at once; try again")
        if earlier is not None:
            # Its session is over; what is left is to give back the work.
            await self._leases.give_back(earlier.id, cause=ANEW)
        return Registered(
            node_id=node.id,
            registration_time=now,
            initial_status=str(moved[0].status),
            session_id=session.id,
            session_timeout_s=self._settings.timeout_s,
            heartbeat_interval_s=self._settings.heartbeat_interval_s,
            node_token=token,
        )

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        """Move the session's deadline; the reply carries orders and what the node has lost."""
        _accept(heartbeat_problems(heartbeat))
        now = self._system.now()
        node = self.get(node_id)
        named = node.session_id if heartbeat.session_id is None else heartbeat.session_id
        session = self._state.sessions.get(named or "")
        if session is None or session.node_id != node_id:
            return HeartbeatReply(
                node_id=node_id,
                timestamp=now,
                status=str(node.status),
                session_lost=True,
                lost_tasks=heartbeat.active_tasks,
            )
        renewed = msgspec.structs.replace(
            session,
            deadline=now + self._settings.timeout_s,
            last_heartbeat=now,
            usage=heartbeat.resources,
            load=heartbeat.load,
            version=session.version + 1,
        )
        # A refusal means that the session has just ended or moved on; the next beat will tell.
        await self._state.commit([Change(sessions=(renewed,))])
        self._history.observe(renewed, active_tasks=len(heartbeat.active_tasks))
        leases = [*self._state.session_executions(session.id)]
        owned = {lease.task.id for lease in leases if lease.owns}
        return HeartbeatReply(
            node_id=node_id,
            timestamp=now,
            status=str(self.get(node_id).status),
            session_lost=session.id not in self._state.sessions,
            lost_tasks=tuple(id for id in heartbeat.active_tasks if id not in owned),
            stop=tuple(
                stop_order(lease.execution)
                for lease in leases
                if lease.execution.status is ExecutionStatus.STOPPING
            ),
        )

    def get(self, node_id: str) -> Node:
        """The node, or `NotFound`."""
        node = self._state.nodes.get(node_id)
        if node is None:
            raise NotFound("node", node_id)
        return node

    async def change(
        self, node_id: str, request: NodeChangeRequest, *, by: str, version: int | None = None
    ) -> Node:
        """Set or remove labels, and describe the node; what is said here outlasts its restarts.

        Raises `InvalidRequest`, and `PreconditionFailed` when the node is not at that version.
        """
        node = self.get(node_id)
        if version is not None and version != node.version:
            raise PreconditionFailed(f"{node_id} has changed since; look at it and try again")
        changed = changed_node(node, request, now=self._system.now(), by=by)
        if changed is None:
            return node
        _accept(label_problems(changed[0]))
        refusal = (await self._state.commit([Change(nodes=(changed[0],), events=(changed[1],))]))[0]
        if refusal is not None:
            if version is not None:
                raise PreconditionFailed(f"{node_id} has just changed; look at it and try again")
            raise Conflict(f"{node_id} has just changed; look at it and try again")
        return changed[0]

    async def drain(self, node_id: str, *, by: str) -> Node:
        """Take nothing new, finish what runs, then go offline."""
        return await self._order(node_id, NodeTrigger.DRAIN_ORDERED, NodeStatus.DRAINING, by)

    async def maintain(self, node_id: str, *, by: str) -> Node:
        """Take nothing new, but stay connected until resumed."""
        return await self._order(
            node_id, NodeTrigger.MAINTENANCE_ORDERED, NodeStatus.MAINTENANCE, by
        )

    async def resume(self, node_id: str, *, by: str) -> Node:
        """Take work again, after `drain` or `maintain`."""
        return await self._order(node_id, NodeTrigger.RESUMED, NodeStatus.ONLINE, by)

    async def unregister(self, node_id: str, *, by: str, session_id: str | None = None) -> Node:
        """The node leaves now; what it was doing goes back to the queue.

        A good-bye from an earlier session than the present one changes nothing.
        """
        node = self.get(node_id)
        if session_id is not None and session_id != node.session_id:
            return node
        if node.session_id is not None:
            await self._leases.end_session(
                node.session_id, cause=f"unregistered by {by}", trigger=NodeTrigger.LEFT
            )
            return self.get(node_id)
        return await self._order(node_id, NodeTrigger.LEFT, NodeStatus.OFFLINE, by)

    async def _order(self, node_id: str, trigger: NodeTrigger, target: NodeStatus, by: str) -> Node:
        """Carry out an order; one that was carried out before is no error."""
        node = self.get(node_id)
        if node.status is target:
            return node
        moved = move_node(node, trigger, now=self._system.now(), cause=f"{trigger} by {by}")
        if moved is None:
            raise Conflict(f"{node_id} is {node.status}: '{trigger}' does not apply")
        refusal = (await self._state.commit([Change(nodes=(moved[0],), events=(moved[1],))]))[0]
        if refusal is not None:
            raise Conflict(f"{node_id} has just changed; look at it and try again")
        return moved[0]

    def _identity(
        self, registration: Registration, by: Principal, now: float
    ) -> tuple[Node, str | None]:
        if registration.node_id is not None or by.node_id is not None:
            if registration.node_id != by.node_id:
                raise Refused(
                    f"only {registration.node_id or by.node_id} itself may register under its id, "
                    "with its own node token"
                )
            return self.get(registration.node_id or ""), None
        token = make_secret(self._system)
        node = Node(
            id=make_id(NODE, now, self._system.entropy),
            name=registration.name,
            created_at=now,
            updated_at=now,
            token_hash=hash_secret(token),
            joined_by=by.key_id,
            version=0,
        )
        return node, token

    def _shown(self, by: Principal) -> ApiKey | None:
        """The join token that the caller showed, if its uses are counted."""
        key = self._state.keyring.keys.get(by.key_id or "")
        return None if key is None or key.max_uses is None else key

    def _placed(self, registration: Registration, by: Principal) -> Registration:
        """The registration in the cluster that the node's join token is bound to, if it is."""
        node = self._state.nodes.get(by.node_id or "")
        key = self._state.keyring.keys.get((node.joined_by if node else by.key_id) or "")
        if key is None or key.cluster_id is None:
            return registration
        if registration.cluster_id not in {DEFAULT_CLUSTER, key.cluster_id}:
            raise Refused(f"nodes of the join token {key.name!r} belong to {key.cluster_id!r}")
        return msgspec.structs.replace(registration, cluster_id=key.cluster_id)

    def _described(self, node: Node, registration: Registration) -> Node:
        capacity = parse_resources(registration.resources)[0]
        if not capacity.slots:
            capacity = msgspec.structs.replace(capacity, slots=DEFAULT_SLOTS)
        return msgspec.structs.replace(
            node,
            name=registration.name,
            description=overridden(registration.description, node.description_override),
            ip_address=registration.ip_address,
            port=registration.port,
            node_type=registration.node_type,
            region=registration.region,
            cluster_id=registration.cluster_id,
            labels=labelled(registration.labels, node.label_overrides),
            capabilities=registration.capabilities,
            task_types=registration.task_types,
            resources=capacity,
        )


class _Outdated(Exception):
    """The join token was changed by somebody else meanwhile."""


def _used(key: ApiKey) -> ApiKey:
    return msgspec.structs.replace(key, uses=key.uses + 1, version=key.version + 1)


def _accept(problems: Iterable[FieldProblem]) -> None:
    """Raise `InvalidRequest` if there are problems."""
    if found := list(islice(problems, MAX_PROBLEMS)):
        raise InvalidRequest(found)


def _ended(session: Session, now: float, cause: str) -> Session:
    return msgspec.structs.replace(
        session, ended_at=now, end_cause=cause, version=session.version + 1
    )
