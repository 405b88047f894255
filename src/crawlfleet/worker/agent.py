"""A node's agent: register, work in a session until it ends, come back as the same node.

The agent runs no work itself, so nothing that an executor does can keep it from its heartbeats.
It stops for good when it was drained, or when it is told to; it starts over when its session is
lost, after every executor of that session has been stopped.
"""

import asyncio
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.errors import Conflict, MasterUnreachable, Refused
from crawlfleet.model.messages import Registered, Registration
from crawlfleet.ports.execution import (
    ControlLink,
    ExecutorPool,
    Identity,
    IdentityKeeper,
)
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.notes import LOG_BYTES
from crawlfleet.worker.session import Measure, SessionEnd, WorkSession

log = logger(Component.WORKER)
FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
LEAVE_DEADLINE_S: Final = 3.0


class AgentEnd(StrEnum):
    DRAINED = "drained"
    STOPPED = "stopped"


class Agent:
    """One node of the fleet."""

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
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self._link = link
        self._pool = pool
        self._identity = identity
        self._system = system
        self._registration = registration
        self._measure = measure
        self._stop_grace_s = stop_grace_s
        self._long_poll_s = long_poll_s
        self._log_bytes = log_bytes
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Give back what runs and leave; `run` returns soon. May be called twice."""
        self._stopping.set()

    async def run(self) -> AgentEnd:
        """Be a node until drained or stopped."""
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
                log_bytes=self._log_bytes,
            )
            end = await session.run()
            log.info("session ended", node_id=registered.node_id, end=str(end))
            if end is SessionEnd.DRAINED:
                return AgentEnd.DRAINED
            if end is SessionEnd.STOPPED:
                await self._leave(registered)
        return AgentEnd.STOPPED

    async def _register(self) -> tuple[float, Registered] | None:
        """Register until it succeeds; `None` when the agent is to stop.

        With the answer comes the time at which it was asked for: the session may be as old.
        """
        pause = FIRST_PAUSE_S
        while not self._stopping.is_set():
            asked_at = asyncio.get_running_loop().time()
            try:
                return asked_at, await self._register_once()
            except (MasterUnreachable, Conflict) as error:
                log.warning("cannot register yet", error=str(error), again_in_s=round(pause, 1))
            chance = int.from_bytes(self._system.entropy(4), "big") / 2**32
            await self._pause(pause * (0.5 + chance))
            pause = min(pause * 2, LONGEST_PAUSE_S)
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
            self._identity.save(
                Identity(node_id=registered.node_id, node_token=registered.node_token)
            )
        return registered

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
