"""Nodes and their sessions: registration, heartbeats, changes, and orders to nodes.

A session is the node's right to hold leases. It ends when the node registers anew, leaves, is
drained empty, or falls silent; all its executions end with it, and their tasks go back to the
queue. The master's clock alone decides; reports of a node under an ended session are stale.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.control.access.keys import Principal
from crawlfleet.control.access.tokens import hash_secret, make_secret
from crawlfleet.control.leases.service import UNMEASURED, Leases
from crawlfleet.control.nodes.health import NodeHealth
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.lost_connections import LostConnections
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version
from crawlfleet.control.state.node_terms import ClusterTerms, news, renewed
from crawlfleet.control.state.shared_commit import SharedCommit
from crawlfleet.core.access.keys import status_of
from crawlfleet.core.nodes.labels import changed_node, label_problems, labelled, overridden
from crawlfleet.core.nodes.registration import (
    heartbeat_problems,
    probe_problems,
    registration_problems,
)
from crawlfleet.core.resources import parse_resources
from crawlfleet.core.tasks.assignments import stop_order
from crawlfleet.core.tasks.lifecycle import NodeTrigger, move_node
from crawlfleet.errors import Conflict, NotFound, Refused, Unauthenticated
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.ids import NODE, SESSION, make_id
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import DEFAULT_CLUSTER, NodeTerms
from crawlfleet.model.requests import NodeChangeRequest
from crawlfleet.model.task import ExecutionStatus
from crawlfleet.model.wire.node_protocol import (
    Heartbeat,
    HeartbeatReply,
    Registered,
    Registration,
)
from crawlfleet.ports.store import Refusal
from crawlfleet.ports.system import System
from crawlfleet.views.distribution import DEVICE_ID

DEFAULT_SLOTS: Final = 4.0
BEATS_TOGETHER_S: Final = 0.15
"""Heartbeats within this time share a commit: nothing on a node waits for the reply."""
BEATS_TOGETHER: Final = 10
"""The shared commit starts early once so many heartbeats wait, as they do in a large fleet."""
ANEW: Final = "the node registered anew"


class Nodes:
    """Registers nodes, keeps their sessions, and changes their labels and descriptions."""

    def __init__(
        self,
        *,
        state: FleetState,
        leases: Leases,
        lost_connections: LostConnections,
        history: NodeHistory,
        health: NodeHealth,
        system: System,
        terms: ClusterTerms,
        probe_loopback: bool,
    ) -> None:
        self._state = state
        self._leases = leases
        self._lost_connections = lost_connections
        self._history = history
        self._health = health
        self._probe_loopback = probe_loopback
        self._system = system
        self._terms = terms
        self._joining = asyncio.Lock()
        self._beats = SharedCommit(state, within_s=BEATS_TOGETHER_S, enough=BEATS_TOGETHER)

    async def register(self, registration: Registration, *, by: Principal) -> Registered:
        """Create the node or take it back, and open a new session for it; its old session ends.

        Raises `InvalidRequest`, or `Refused` for a node that claims the id of another, or another
        cluster than that of its join token.
        """
        registration = self._placed(registration, by)
        if registration.cluster_id not in self._state.clusters:
            await self._state.refresh.clusters()
        accept(registration_problems(registration, self._state.clusters))
        accept(probe_problems(registration, allow_loopback=self._probe_loopback))
        if by.node_id is not None or self._shown(by) is None:
            return await self._register(registration, by, joins=False)
        # One after another: each counts one more use than the one before.
        async with self._joining:
            return await self._register(registration, by, joins=True)

    async def _register(
        self, registration: Registration, by: Principal, *, joins: bool
    ) -> Registered:
        """Register a node; with `joins`, the same commit counts a use of the join token."""

        async def decide() -> tuple[tuple[Registered, Session | None], Change]:
            shown = self._shown(by) if joins else None
            if joins:
                status = status_of(shown, now=self._system.wall()) if shown else "unknown"
                if status != "live":
                    raise Unauthenticated(f"this join token is {status}", status)
            registered, earlier, change = self._registered(registration, by, shown)
            return (registered, earlier), change

        def on_refusal(refusal: Refusal) -> None:
            shown = self._shown(by) if joins else None
            if shown is None or refusal.subject != shown.id:
                raise Conflict(
                    f"{registration.node_id or registration.name} has just changed, or registers "
                    "twice at once; try again"
                )

        registered, earlier = await self._state.decide(
            "the join token", decide, on_refusal=on_refusal
        )
        if earlier is not None:
            # Its session is over; what is left is to give back the work.
            await self._leases.give_back(earlier.id, cause=ANEW)
        return registered

    def _registered(
        self, registration: Registration, by: Principal, shown: ApiKey | None
    ) -> tuple[Registered, Session | None, Change]:
        """The answer to a registration, the earlier session that ends, and the change."""
        now = self._system.now()
        node, token = self._identity(registration, by, now)
        terms = self._terms.of(registration.cluster_id)
        session = Session(
            id=make_id(SESSION, now, self._system.entropy),
            node_id=node.id,
            started_at=now,
            deadline=now + terms.session_timeout_s,
            last_heartbeat=now,
            timeout_s=terms.session_timeout_s,
        )
        moved = move_node(
            self._described(node, registration),
            NodeTrigger.REGISTERED,
            now=now,
            cause=f"registered by {by.name}",
            session_id=session.id,
            **UNMEASURED,
        )
        if moved is None:
            raise Conflict(f"{node.id} cannot register while it is {node.status}")
        earlier = self._state.sessions.get(node.session_id or "")
        ended = () if earlier is None else (_ended(earlier, now, ANEW),)
        change = Change(
            nodes=(moved[0],),
            sessions=(*ended, session),
            events=(moved[1],) if shown is None else (moved[1], _use(shown, node, now)),
            rows=() if shown is None else (_used(shown),),
        )
        registered = Registered(
            node_id=node.id,
            registration_time=now,
            initial_status=str(moved[0].status),
            session_id=session.id,
            session_timeout_s=terms.session_timeout_s,
            heartbeat_interval_s=terms.heartbeat_interval_s,
            node_token=token,
            terms=terms,
        )
        return registered, earlier, change

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        """Extend the session; the reply carries orders, and the tasks that the node has lost."""
        accept(heartbeat_problems(heartbeat))
        now = self._system.now()
        node = await self.find(node_id)
        named = (node.session_id if heartbeat.session_id is None else heartbeat.session_id) or ""
        terms = await self._terms_for(node, heartbeat)
        if not await self._renew(node_id, named, heartbeat, terms):
            return HeartbeatReply(
                node_id=node_id,
                timestamp=now,
                status=str(self.get(node_id).status),
                session_lost=True,
                lost_tasks=heartbeat.active_tasks,
            )
        if heartbeat.environments is not msgspec.UNSET:
            self._leases.warming.told(node_id, heartbeat.environments)
        if self._lost(named, heartbeat):
            # So it seems here; another master may have assigned them a moment ago.
            await self._state.refresh.tasks(self._lost(named, heartbeat))
        return HeartbeatReply(
            node_id=node_id,
            timestamp=now,
            status=str(self.get(node_id).status),
            session_lost=named not in self._state.sessions,
            lost_tasks=self._lost(named, heartbeat),
            stop=tuple(
                stop_order(lease.execution)
                for lease in self._state.session_executions(named)
                if lease.execution.status is ExecutionStatus.STOPPING
            ),
            terms=news(terms, heartbeat),
        )

    async def _renew(
        self, node_id: str, session_id: str, heartbeat: Heartbeat, terms: NodeTerms
    ) -> bool:
        """Move the deadline of a session; `False` if there is no such session (any more)."""
        await self._leases.know_session(node_id, session_id)
        is_known = True

        async def decide() -> Sequence[Change]:
            nonlocal is_known
            session = self._state.sessions.get(session_id)
            is_known = session is not None and session.node_id == node_id
            if session is None or not is_known:
                return ()
            moved = renewed(session, heartbeat, terms, now=self._system.now())
            if moved is None:
                return ()
            sample = self._history.observe(moved, active_tasks=len(heartbeat.active_tasks))
            judged = self._health.observe(moved, sample, sent_at=heartbeat.sent_at)
            return [Change(sessions=(moved,)), *([judged] if judged else [])]

        def is_settled(changes: Sequence[Change], refusals: Sequence[Refusal | None]) -> bool:
            # What somebody else has just changed about the node stands: the next beat judges it.
            if changes and refusals[0] is not None:
                return False
            if changes:
                self._lost_connections.note_heartbeat(changes[0].sessions[0])
            return True

        # One that is refused each time moves on all the time: somebody takes in its heartbeats.
        await self._state.decide_batch(decide, is_settled=is_settled, commit=self._beats.commit)
        return is_known

    async def _terms_for(self, node: Node, heartbeat: Heartbeat) -> NodeTerms:
        """Return the terms for the node, never older than those that another master sent it."""
        terms = self._terms.of(node.cluster_id)
        if (heartbeat.configuration_version or 0) > terms.version:
            await self._state.refresh.clusters()
            terms = self._terms.of(node.cluster_id)
        return terms

    def _lost(self, session_id: str, heartbeat: Heartbeat) -> tuple[str, ...]:
        """Return the tasks that the node reports as active but does not own."""
        leases = self._state.session_executions(session_id)
        owned = {lease.task.id for lease in leases if lease.owns}
        return tuple(id for id in heartbeat.active_tasks if id not in owned)

    def get(self, node_id: str) -> Node:
        """The node, or `NotFound`."""
        node = self._state.nodes.get(node_id)
        if node is None:
            raise NotFound("node", node_id)
        return node

    async def find(self, node_id: str) -> Node:
        """The node, or `NotFound`; also one that registered a moment ago at another master."""
        if node_id not in self._state.nodes:
            await self._state.refresh.nodes([node_id])
        return self.get(node_id)

    def known_as(self, name: str) -> Node | None:
        """Return the node with this id, else the first that labelled itself with it, or `None`."""
        nodes = self._state.nodes
        if name in nodes:
            return nodes[name]
        named = (node for _, node in sorted(nodes.items()) if node.labels.get(DEVICE_ID) == name)
        return next(named, None)

    async def present(self, node_id: str) -> Node:
        """Return the node as it is in the store: another master may just have changed it."""
        await self._state.refresh.nodes([node_id])
        return self.get(node_id)

    async def change(
        self, node_id: str, request: NodeChangeRequest, *, by: str, version: int | None = None
    ) -> Node:
        """Set or remove labels, and describe the node; these changes outlast its restarts.

        Raises `InvalidRequest`, and `PreconditionFailed` when the node is not at that version.
        """

        async def decide() -> tuple[Node, Change | None]:
            node = await self.present(node_id)
            changed = changed_node(node, request, now=self._system.now(), by=by)
            if changed is None:
                return node, None
            expect_version(node_id, node.version, version)
            accept(label_problems(changed[0]))
            return changed[0], Change(nodes=(changed[0],), events=(changed[1],))

        return await self._state.decide(node_id, decide)

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
        """Return the join token that the caller used, if its uses are counted."""
        key = self._state.keyring.keys.get(by.key_id or "")
        return None if key is None or key.max_uses is None else key

    def _placed(self, registration: Registration, by: Principal) -> Registration:
        """Return the registration, in the cluster of the node's join token if that names one."""
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
            probe=registration.probe,
        )


def _use(key: ApiKey, node: Node, now: float) -> Event:
    """Return the event by which other masters learn how many uses are left."""
    return Event(kind="key.used", subject=key.id, at=now, cause=f"{node.id} joined")


def _used(key: ApiKey) -> ApiKey:
    return msgspec.structs.replace(key, uses=key.uses + 1, version=key.version + 1)


def _ended(session: Session, now: float, cause: str) -> Session:
    return msgspec.structs.replace(
        session, ended_at=now, end_cause=cause, version=session.version + 1
    )
