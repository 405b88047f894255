"""Nodes whose connection broke: unless they are heard again soon, their work goes elsewhere.

A node always waits for work on an open connection, and a process that dies closes it, however it
dies. So there is no need to wait until its session times out. Fencing makes this safe: a node that
was only cut off for a moment too long registers anew, and its old reports are refused.

It may also have turned to another master. Then it beats there at once, which moves its session in
the store, and that is looked at before anything is ended.
"""

import asyncio

from crawlfleet.control.leases import Leases
from crawlfleet.control.state import FleetState
from crawlfleet.core.lifecycle import NodeTrigger
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.node import Session
from crawlfleet.model.settings import SessionSettings
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)


class Suspicion:
    """Remembers who hung up, for as long as they may come back."""

    def __init__(self, *, state: FleetState, leases: Leases, settings: SessionSettings) -> None:
        self._state = state
        self._leases = leases
        self._grace_s = settings.reconnect_s
        self._suspects: dict[str, tuple[Session, float]] = {}
        """By node: its session as it was then, and until when it may be heard."""
        self._grown = asyncio.Event()

    def suspect(self, node_id: str, session_id: str) -> None:
        """The node hung up while it waited for an answer."""
        session = self._state.sessions.get(session_id)
        if session is not None:
            until = asyncio.get_running_loop().time() + self._grace_s
            self._suspects[node_id] = (session, until)
            self._grown.set()

    def hear(self, node_id: str) -> None:
        """The node is there."""
        self._suspects.pop(node_id, None)

    async def run(self) -> None:
        """For ever: end the sessions of those who do not come back."""
        loop = asyncio.get_running_loop()
        while True:
            next_at = min((until for _, until in self._suspects.values()), default=None)
            try:
                async with asyncio.timeout_at(next_at):
                    await self._grown.wait()
                self._grown.clear()
            except TimeoutError:
                for node_id, (session, until) in [*self._suspects.items()]:
                    if until <= loop.time():
                        self.hear(node_id)
                        await self._end(session)

    async def _end(self, session: Session) -> None:
        cause = f"its connection broke, and it was not heard for {self._grace_s:g} s"
        try:
            await self._state.renewal.sessions([session.id])
            present = self._state.sessions.get(session.id)
            if present is None or present.version != session.version:
                return
            log.warning("its connection broke, and it was not heard", node_id=session.node_id)
            await self._leases.end_session(session.id, cause=cause, trigger=NodeTrigger.SILENT)
        except StoreUnavailable as error:
            # Then its silence will tell.
            log.warning("store unavailable", error=str(error))
