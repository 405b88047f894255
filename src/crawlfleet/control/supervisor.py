"""The control plane as one thing: start in order, run together, stop in order.

Start: open the store, take the lead, load, mend what a crash left half-way, then begin to act.
Stop: no new work, let running commits finish, save the cursor, close the store.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from crawlfleet.control.clusters import Clusters
from crawlfleet.control.dispatch import Dispatch
from crawlfleet.control.events import Broadcast, Events
from crawlfleet.control.history import NodeHistory
from crawlfleet.control.keys import Keys
from crawlfleet.control.leases import Leases
from crawlfleet.control.logs import Logs
from crawlfleet.control.nodes import Nodes
from crawlfleet.control.orders import Orders
from crawlfleet.control.outbox import Outbox
from crawlfleet.control.projects import Projects
from crawlfleet.control.queries import Queries
from crawlfleet.control.state import FleetState
from crawlfleet.control.suspicion import Suspicion
from crawlfleet.control.tasks import Tasks
from crawlfleet.control.terms import Terms
from crawlfleet.control.timers import Timers
from crawlfleet.core.admission import AdmissionRules
from crawlfleet.core.rules import Rules
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.settings import Settings
from crawlfleet.ports.bus import EventSink
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
STOP_DEADLINE_S: Final = 5.0


class ControlPlane:
    """All services of the master over one store. An async context manager."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        rules: Rules,
        admission: AdmissionRules,
        sinks: Sequence[EventSink] = (),
        name: str = "master",
        origins: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._system = system
        self.settings = settings
        self.origins = origins or {}
        """Where the value of each setting came from, by its dotted name."""
        self._name = name
        self.state = state = FleetState(store=store, system=system)
        self.keys = Keys(state=state, system=system)
        self.leases = Leases(state=state, system=system, settings=settings.recovery)
        self.logs = Logs(store=store, state=state, system=system)
        self.history = NodeHistory(store=store, state=state, system=system)
        terms = Terms(state=state, settings=settings.session)
        self.nodes = Nodes(
            state=state, leases=self.leases, history=self.history, system=system, terms=terms
        )
        self.projects = Projects(store=store, state=state, system=system)
        self.clusters = Clusters(
            store=store,
            state=state,
            system=system,
            strategies=rules.strategies,
            settings=settings.session,
        )
        self.tasks = Tasks(
            store=store, state=state, system=system, rules=admission, settings=settings.tasks
        )
        self.orders = Orders(store=store, state=state, system=system)
        self.queries = Queries(
            store=store, state=state, system=system, tasks=self.tasks, rules=rules
        )
        self._dispatch = Dispatch(
            state=state, system=system, rules=rules, settings=settings.dispatch
        )
        self._timers = Timers(
            store=store,
            state=state,
            leases=self.leases,
            system=system,
            session=settings.session,
            recovery=settings.recovery,
            retention=settings.retention,
            history=self.history,
            terms=terms,
        )
        self.suspicion = Suspicion(leases=self.leases, settings=settings.session)
        self._broadcast = Broadcast()
        self._outbox = outbox = Outbox(store=store, state=state, sinks=[self._broadcast, *sinks])
        self.events = Events(
            store=store, broadcast=self._broadcast, position=lambda: outbox.position
        )
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._store.open()
        self.state.epoch = await self._store.lead(self._name)
        await self.state.load()
        await self._mend()
        self._running = asyncio.create_task(self._run(), name="control plane")
        log.info(
            "control plane started",
            epoch=self.state.epoch,
            nodes=len(self.state.nodes),
            ready=len(self.state.queue),
            running=len(self.state.leases),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._running is not None:
                self._running.cancel()
                await asyncio.wait([self._running])
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(STOP_DEADLINE_S):
                    await self._outbox.save()
                    await self.history.write()
        finally:
            await self._store.close()
        log.info("control plane stopped")

    def dismiss(self) -> None:
        """Let those who follow events or logs go: the master is about to stop."""
        self._broadcast.end()
        self.logs.dismiss()

    async def watch(self) -> None:
        """Wait for as long as the control plane works; raises what made it stop."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.recover(), name="recover")
            group.create_task(self._dispatch.run(), name="dispatch")
            group.create_task(self._timers.run(), name="timers")
            group.create_task(self._outbox.run(), name="outbox")
            group.create_task(self.history.run(), name="history")
            group.create_task(self.suspicion.run(), name="suspicion")

    async def _mend(self) -> None:
        """Sessions get a full timeout to be heard again; work of ended sessions goes back."""
        now = self._system.now()
        least = self.settings.session.timeout_s
        await self.state.commit(
            [
                Change(
                    sessions=(
                        msgspec.structs.replace(
                            session,
                            deadline=now + max(session.timeout_s, least),
                            version=session.version + 1,
                        ),
                    )
                )
                for session in self.state.sessions.values()
            ]
        )
        await self.leases.give_back_orphans()
