"""A node's agent: it registers, works in a session until that ends, and comes back as the same
node.

The agent runs no work itself, so nothing that an executor does can keep it from its heartbeats. It
stops for good when it was drained or is ordered to stop. When its session is lost, it stops every
executor of that session, and then starts over.
"""

import asyncio
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.errors import Conflict, MasterUnreachable, Refused
from crawlfleet.event_loop import alongside
from crawlfleet.model.wire.node_protocol import Registered, Registration
from crawlfleet.ports.execution import (
    ControlLink,
    ExecutorPool,
    Identity,
    IdentityKeeper,
    ReportKeeper,
)
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.backoff import Pauses
from crawlfleet.worker.code.environments import Environments
from crawlfleet.worker.code.prewarming import Warming
from crawlfleet.worker.health_endpoint import HealthInfo
from crawlfleet.worker.redelivery import Redelivery
from crawlfleet.worker.session.log_forwarding import LOG_BYTES
from crawlfleet.worker.session.session import Measure, WorkSession
from crawlfleet.worker.session.session_end import SessionEnd

log = logger(Component.WORKER)
FIRST_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 5.0
LEAVE_DEADLINE_S: Final = 3.0


class AgentEnd(StrEnum):
    DRAINED = "drained"
    STOPPED = "stopped"


class Agent:
    """The agent of one node of the fleet."""

    def __init__(
        self,
        *,
        link: ControlLink,
        pool: ExecutorPool,
        identity: IdentityKeeper,
        system: System,
        registration: Registration,
        measure: Measure,
        stop_grace_s: float,
        long_poll_s: float,
        keeper: ReportKeeper,
        log_bytes: int = LOG_BYTES,
        leave_grace_s: float = 0.0,
        health_info: HealthInfo | None = None,
        environments: Environments | None = None,
    ) -> None:
        """Create an agent. With `environments`, the node makes some of them ahead of their
        executions, as the master asks."""
        self._link = link
        self._environments = environments
        self._pool = pool
        self._identity = identity
        self._system = system
        self._registration = registration
        self._measure = measure
        self._stop_grace_s = stop_grace_s
        self._long_poll_s = long_poll_s
        self._keeper = keeper
        self._log_bytes = log_bytes
        self._leave_grace_s = leave_grace_s
        self._leaving = asyncio.Event()
        self._stopping = asyncio.Event()
        self._redelivery = Redelivery(link=link, identity=identity, keeper=keeper)
        self._health_info = health_info or HealthInfo()

    def stop(self) -> None:
        """Stop the node: running executions may end within the grace, the rest is given back, then
        `run` returns.

        The second call stops at once, and so does the first without a session or a grace.
        """
        if self._leave_grace_s and self._health_info.session and not self._leaving.is_set():
            self._leaving.set()
        else:
            self._stopping.set()

    async def hand_in(self) -> None:
        """Deliver the finished work of an earlier life, if the master is reachable. `run` does so
        in any case.

        Call this before anything slow: the master waits for a limited time.
        """
        try:
            await self._redelivery.deliver()
        except MasterUnreachable as error:
            log.info("finished work waits on", error=str(error))

    async def run(self) -> AgentEnd:
        """Run the node until it is drained or stopped."""
        while not self._stopping.is_set():
            answer = await self._register()
            if answer is None:
                break
            asked_at, registered = answer
            log.info("session opened", node_id=registered.node_id, session=registered.session_id)
            session = WorkSession(
                link=self._link,
                pool=self._pool,
                system=self._system,
                registered=registered,
                asked_at=asked_at,
                measure=self._measure,
                slots=int(self._registration.resources["slots"]),
                stop_grace_s=self._stop_grace_s,
                long_poll_s=self._long_poll_s,
                stopping=self._stopping,
                keeper=self._keeper,
                log_bytes=self._log_bytes,
                warming=Warming(self._environments),
            )
            self._health_info.node_id, self._health_info.session = registered.node_id, True
            async with alongside(self._drain_when_told(registered), name="leaving"):
                try:
                    end = await session.run()
                finally:
                    self._health_info.session = False
            log.info("session ended", node_id=registered.node_id, end=str(end))
            if end is SessionEnd.DRAINED:
                return AgentEnd.DRAINED
            if end is SessionEnd.STOPPED:
                await self._leave(registered)
        return AgentEnd.STOPPED

    async def _register(self) -> tuple[float, Registered] | None:
        """Register until that succeeds. Returns the time of the request, too, since the session may
        be as old. `None` when the agent is to stop."""
        pauses = Pauses(self._system, first_s=FIRST_PAUSE_S, longest_s=MAX_PAUSE_S)
        while not self._stopping.is_set():
            try:
                # A master that was away has ended no session, so that work which was finished
                # meanwhile counts; the registration ends the last one.
                await self._redelivery.deliver()
                asked_at = asyncio.get_running_loop().time()
                return asked_at, await self._register_once()
            except (MasterUnreachable, Conflict) as error:
                pause_s = pauses.next(error)
                log.warning("cannot register yet", error=str(error), again_in_s=round(pause_s, 1))
            await self._pause(pause_s)
        return None

    async def _register_once(self) -> Registered:
        known = self._identity.load()
        if known is not None:
            try:
                return await self._link.register(
                    msgspec.structs.replace(self._registration, node_id=known.node_id),
                    known.node_token,
                )
            except Refused as error:
                log.warning("not known any more, joining as a new node", error=str(error))
        registered = await self._link.register(self._registration, None)
        if registered.node_token is not None:
            self._identity.adopt(
                Identity(node_id=registered.node_id, node_token=registered.node_token)
            )
        return registered

    async def _drain_when_told(self, registered: Registered) -> None:
        """Drain the node when it is to leave; stop when the grace is over, whether that succeeds or
        not."""
        await self._leaving.wait()
        log.info("leaving when what runs has ended", within_s=self._leave_grace_s)
        try:
            async with asyncio.timeout(self._leave_grace_s + LEAVE_DEADLINE_S):
                await self._ask_to_drain(registered)
                await asyncio.Event().wait()
        except TimeoutError:
            log.warning("work that has not ended is given back")
        except Refused as error:
            log.warning("cannot be drained", error=str(error))
        self._stopping.set()

    async def _ask_to_drain(self, registered: Registered) -> None:
        until = asyncio.get_running_loop().time() + self._leave_grace_s
        while True:
            left_s = max(until - asyncio.get_running_loop().time(), 0.0)
            try:
                return await self._link.drain(registered.node_id, left_s)
            except MasterUnreachable as error:
                log.warning("cannot ask to be drained yet", error=str(error))
            await asyncio.sleep(FIRST_PAUSE_S)

    async def _leave(self, registered: Registered) -> None:
        try:
            async with asyncio.timeout(LEAVE_DEADLINE_S):
                await self._link.leave(registered.node_id, registered.session_id)
        except (MasterUnreachable, Refused, TimeoutError) as error:
            log.warning("left without a good-bye", error=str(error))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
