"""Nodes whose connection broke: unless they are heard again soon, their work goes elsewhere.

A process that dies closes its connections, however it dies. So there is no need to wait until its
session times out. A node is suspected when it hangs up while it waits for work, and when it has no
connection left shortly after it did, if it says that it keeps one for as long as it lives: it may
die between two polls. What it sent before it died may be handled later, so a request is a sign of
life only for as long as its connection is open, and a heartbeat only if it is not lost meanwhile.

Fencing makes this safe: a node that was only cut off for a moment too long registers anew, and its
old reports are refused. Connections that the master closes tell nothing, and neither do those of
nodes that promise nothing: scripts, and clients that open one for each request.

It may also have turned to another master. Then it beats there at once, which moves its session in
the store, and that is looked at before anything is ended.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from crawlfleet.control.leases.service import Leases
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.tasks.lifecycle import NodeTrigger
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.node import Session
from crawlfleet.model.settings import SessionSettings
from crawlfleet.model.wire.node_protocol import LeaseRequest
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)
POLLS_AGAIN_S: Final = 5.0
"""A node that does not poll for longer has a reason, or polls another master: that its connections
are gone then tells nothing."""


class NodeConnection:
    """A connection on which nodes may speak; the server says when it is lost."""

    __slots__ = ("is_open", "node_id", "on_lost")

    def __init__(self) -> None:
        self.is_open = True
        self.node_id = ""
        """Who spoke last: behind a proxy several nodes share one."""
        self.on_lost: Callable[[NodeConnection, bool], None] | None = None

    def lose(self, *, by_peer: bool) -> None:
        """It is closed, by the other side or by ours."""
        self.is_open = False
        if self.on_lost is not None:
            self.on_lost(self, by_peer)


class _Suspect(NamedTuple):
    session: Session
    """As it was then."""
    until: float
    """When it is too late to be heard."""


class LostConnections:
    """Remembers who hung up, for as long as they may come back."""

    def __init__(self, *, state: FleetState, leases: Leases, settings: SessionSettings) -> None:
        self._state = state
        self._leases = leases
        self._grace_s = settings.reconnect_s
        self._suspects: dict[str, _Suspect] = {}
        """By node, as all of these."""
        self._connections: dict[str, set[NodeConnection]] = {}
        """Those that are open."""
        self._polls_by: dict[str, float] = {}
        """Until when a node is expected that keeps a connection for as long as it lives."""
        self._polls: dict[str, NodeConnection] = {}
        """Where it waits for work; the newest, if it polled again before the old one was over."""
        self._grown = asyncio.Event()

    def begin_poll(self, node_id: str, connection: NodeConnection) -> None:
        """The node waits for work from now on."""
        self._polls[node_id] = connection

    def end_poll(self, node_id: str, connection: NodeConnection) -> None:
        """It does not wait there any more."""
        if self._polls.get(node_id) is connection:
            del self._polls[node_id]

    def note_poll_end(self, node_id: str, poll: LeaseRequest, connection: NodeConnection) -> None:
        """It has its answer, or closed the connection: unless it waits on another by now, it may
        have died."""
        if poll.keeps_connection:
            self.expect_poll(node_id)
        if not connection.is_open and self._polls.get(node_id) is connection:
            self.mark_lost(node_id, poll.session_id)

    def mark_lost(self, node_id: str, session_id: str) -> None:
        """The node may have died."""
        session = self._state.sessions.get(session_id)
        if session is None:
            self._polls_by.pop(node_id, None)
            return
        until = asyncio.get_running_loop().time() + self._grace_s
        self._suspects[node_id] = _Suspect(session, until)
        self._grown.set()

    def note_request(self, node_id: str, connection: NodeConnection) -> None:
        """The node speaks; it is there if the connection still is."""
        if connection.node_id != node_id:
            self._meet(node_id, connection)
        if node_id in self._suspects and connection.is_open:
            del self._suspects[node_id]

    def expect_poll(self, node_id: str) -> None:
        """The node has polled, and keeps a connection for as long as it lives: it polls again."""
        self._polls_by[node_id] = asyncio.get_running_loop().time() + POLLS_AGAIN_S

    def note_heartbeat(self, session: Session) -> None:
        """A heartbeat that came here has moved the session: if the node is suspected, that was
        under way when it hung up. Only one that moved it once more was sent later."""
        suspect = self._suspects.get(session.node_id)
        if suspect is None or suspect.session.id != session.id:
            return
        if suspect.session.version + 1 == session.version:
            self._suspects[session.node_id] = suspect._replace(session=session)

    async def run(self) -> None:
        """For ever: end the sessions of those who do not come back."""
        while True:
            next_at = min((suspect.until for suspect in self._suspects.values()), default=None)
            try:
                async with asyncio.timeout_at(next_at):
                    await self._grown.wait()
                self._grown.clear()
            except TimeoutError:
                for suspect in [*self._suspects.values()]:
                    if self._is_due(suspect.session):
                        await self._end(suspect.session)

    def _is_due(self, session: Session) -> bool:
        """Whether it was not heard in time, also if it was suspected anew meanwhile."""
        suspect = self._suspects.get(session.node_id)
        if suspect is None or suspect.session.id != session.id:
            return False
        return suspect.until <= asyncio.get_running_loop().time()

    async def _end(self, session: Session) -> None:
        cause = f"its connection broke, and it was not heard for {self._grace_s:g} s"
        try:
            await self._state.refresh.sessions([session.id])
            if not self._is_due(session):
                return
            suspect = self._forget(session.node_id)
            present = self._state.sessions.get(session.id)
            if present is None or present.version != suspect.session.version:
                return
            log.warning("its connection broke, and it was not heard", node_id=session.node_id)
            await self._leases.end_session(session.id, cause=cause, trigger=NodeTrigger.SILENT)
        except StoreUnavailable as error:
            # Then its silence will tell.
            if self._is_due(session):
                self._forget(session.node_id)
            log.warning("store unavailable", error=str(error))

    def _forget(self, node_id: str) -> _Suspect:
        if node_id not in self._connections:
            self._polls_by.pop(node_id, None)
        return self._suspects.pop(node_id)

    def _meet(self, node_id: str, connection: NodeConnection) -> None:
        if connection.is_open:
            self._part(connection)
            connection.node_id = node_id
            connection.on_lost = self._lost
            self._connections.setdefault(node_id, set()).add(connection)

    def _part(self, connection: NodeConnection) -> bool:
        """Whether its node has no other."""
        others = self._connections.get(connection.node_id, set())
        others.discard(connection)
        if not others:
            self._connections.pop(connection.node_id, None)
        return not others

    def _lost(self, connection: NodeConnection, by_peer: bool) -> None:
        node_id = connection.node_id
        if not self._part(connection) or node_id not in self._polls_by:
            return
        if by_peer and asyncio.get_running_loop().time() < self._polls_by[node_id]:
            node = self._state.nodes.get(node_id)
            self.mark_lost(node_id, (node.session_id if node else None) or "")
        elif node_id not in self._suspects:
            del self._polls_by[node_id]
