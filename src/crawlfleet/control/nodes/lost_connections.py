"""Nodes whose connection broke: unless they come back soon, their work goes to others.

The connections of a process that dies are closed, however it dies. So the master need not wait
until its session times out. It suspects a node that hangs up while it polls for work, and one that
has no connection left shortly after a poll although it promised to keep one for as long as it
lives: such a node may die between two polls. A request that the node sent before it died may be
handled later, so a request clears the suspicion only while its connection is open, and a heartbeat
only if its connection is not lost meanwhile.

Fencing makes this safe: a node that was only cut off for a moment too long registers anew, and its
old reports are refused. Connections that the master closes mean nothing, and neither do those of
nodes that promise nothing: scripts, and clients that open one for each request.

A suspected node may also have turned to another master. Then it sends a heartbeat there at once,
which moves its session in the store; the session is read again before it is ended.
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
"""A node that polls no sooner than this has a reason, or polls another master: the loss of its
connections then means nothing.
"""


class NodeConnection:
    """A connection over which nodes send requests; the server reports when it is lost."""

    __slots__ = ("is_open", "node_id", "on_lost")

    def __init__(self) -> None:
        self.is_open = True
        self.node_id = ""
        """The node of the last request: several nodes share a connection behind a proxy."""
        self.on_lost: Callable[[NodeConnection, bool], None] | None = None

    def lose(self, *, by_peer: bool) -> None:
        """Mark the connection as closed, by the other side or by this one."""
        self.is_open = False
        if self.on_lost is not None:
            self.on_lost(self, by_peer)


class _Suspect(NamedTuple):
    session: Session
    """The session when the node was suspected."""
    until: float
    """The session is ended unless the node is back by then, on the clock of the event loop."""


class LostConnections:
    """Watches nodes that hung up, and ends the sessions of those that do not come back."""

    def __init__(self, *, state: FleetState, leases: Leases, settings: SessionSettings) -> None:
        self._state = state
        self._leases = leases
        self._grace_s = settings.reconnect_s
        self._suspects: dict[str, _Suspect] = {}
        """Suspected sessions by node."""
        self._connections: dict[str, set[NodeConnection]] = {}
        """Open connections by node."""
        self._polls_by: dict[str, float] = {}
        """Time by which a node is expected to poll again, if it promised to keep a connection."""
        self._polls: dict[str, NodeConnection] = {}
        """Connection on which a node polls for work, by node; the newest, if two polls overlap."""
        self._grown = asyncio.Event()

    def begin_poll(self, node_id: str, connection: NodeConnection) -> None:
        """Note that the node polls for work on this connection."""
        self._polls[node_id] = connection

    def end_poll(self, node_id: str, connection: NodeConnection) -> None:
        """Note that the node does not poll on this connection any more."""
        if self._polls.get(node_id) is connection:
            del self._polls[node_id]

    def note_poll_end(self, node_id: str, poll: LeaseRequest, connection: NodeConnection) -> None:
        """Note that a poll has ended. If its connection is closed and the node has no newer poll,
        the node is suspected.
        """
        if poll.keeps_connection:
            self.expect_poll(node_id)
        if not connection.is_open and self._polls.get(node_id) is connection:
            self.mark_lost(node_id, poll.session_id)

    def mark_lost(self, node_id: str, session_id: str) -> None:
        """Suspect the node: it may have died."""
        session = self._state.sessions.get(session_id)
        if session is None:
            self._polls_by.pop(node_id, None)
            return
        until = asyncio.get_running_loop().time() + self._grace_s
        self._suspects[node_id] = _Suspect(session, until)
        self._grown.set()

    def note_request(self, node_id: str, connection: NodeConnection) -> None:
        """Note a request of the node; it clears the suspicion if its connection is still open."""
        if connection.node_id != node_id:
            self._meet(node_id, connection)
        if node_id in self._suspects and connection.is_open:
            del self._suspects[node_id]

    def expect_poll(self, node_id: str) -> None:
        """Expect another poll soon: the node has polled, and promised to keep a connection."""
        self._polls_by[node_id] = asyncio.get_running_loop().time() + POLLS_AGAIN_S

    def note_heartbeat(self, session: Session) -> None:
        """Note a committed heartbeat. The first one after a node hung up may have been sent before
        that, and keeps the suspicion; a second one shows that the session goes on.
        """
        suspect = self._suspects.get(session.node_id)
        if suspect is None or suspect.session.id != session.id:
            return
        if suspect.session.version + 1 == session.version:
            self._suspects[session.node_id] = suspect._replace(session=session)

    async def run(self) -> None:
        """End the sessions of nodes that do not come back in time; runs until cancelled."""
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
        """Return whether a suspected session is due, also if it was suspected anew meanwhile."""
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
        """Drop a connection of a node; return whether it was the node's last."""
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
