"""The control plane of a master: the kernel and its features, started, led and stopped in order.

Start: open the store, take the lead if no other master has it, load, then begin to act. Every
master serves the API and follows the commits of others; the leading master also dispatches, runs
the timers and carries events out. A master that loses the lead goes on as a follower, and stands
for it again. Stop: no new work, let running commits finish, save the cursor, resign, close the
store.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from crawlfleet.control.events.outbox import Outbox
from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import NO_ADAPTERS, Adapters, Feature, Loop
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.errors import LeadershipLost, StoreUnavailable
from crawlfleet.features.alerts.feature import alerts
from crawlfleet.features.bundles.feature import bundles
from crawlfleet.features.crawls.feature import crawls
from crawlfleet.features.schedules.feature import schedules
from crawlfleet.features.secrets.feature import secrets
from crawlfleet.features.webhooks.feature import webhooks
from crawlfleet.features.workflows.feature import workflows
from crawlfleet.model.settings import Settings
from crawlfleet.ports.events import EventSink
from crawlfleet.ports.store import Lead, Leadership, Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
STOP_DEADLINE_S: Final = 5.0
STAND_EVERY_S: Final = 0.5
"""Interval at which a follower tries to take the lead: part of the duration of a take-over."""
PAUSE_AFTER_LOSS_S: Final = 0.5
FEATURES: Final[Sequence[Callable[[Kernel, Adapters], Feature]]] = (
    bundles,
    secrets,
    crawls,
    workflows,
    schedules,
    alerts,
    webhooks,
)
"""The features, in the order in which they are attached, check submissions and get events; a
feature may use the services of those before it.
"""

Service = TypeVar("Service")


class ControlPlane(Kernel):
    """All services of a master over one store. An async context manager."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        rules: PlacementRules,
        admission: AdmissionRules,
        adapters: Adapters = NO_ADAPTERS,
        sinks: Sequence[EventSink] = (),
        name: str = "master",
        origins: Mapping[str, str] | None = None,
    ) -> None:
        """`sinks` get every event before the features do; `origins` names the source of each
        setting's value, by the setting's dotted name.
        """
        super().__init__(
            store=store,
            system=system,
            settings=settings,
            rules=rules,
            admission=admission,
            adapters=adapters,
            name=name,
            origins=origins or {},
        )
        self._features = [self._attach(feature(self, adapters)) for feature in FEATURES]
        # Last: what they may raise must not keep the others from hearing.
        hearers = [hearer for feature in self._features for hearer in feature.hearers]
        self._outbox = Outbox(
            store=store, state=self.state, sinks=[*sinks, self.shard_parents, *hearers]
        )
        self._running: asyncio.Task[None] | None = None

    def _attach(self, feature: Feature) -> Feature:
        self.services.add(*feature.services)
        self.state.indexes += feature.indexes
        self.tasks.checks += feature.checks
        self.expiring += feature.expiring
        return feature

    def service(self, kind: type[Service]) -> Service:
        """Return the service of this type, of the kernel or of a feature."""
        return self.services.get(kind)

    async def __aenter__(self) -> Self:
        await self.store.open()
        try:
            for feature in self._features:
                await feature.open()
            await self._start()
        except BaseException:
            await self._close()
            raise
        self._running = asyncio.create_task(self._run(), name="control plane")
        log.info(
            "control plane started",
            leads=self.this.leads,
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
                    await self.history.write()
                    await self.keys.save()
        finally:
            await self.quality.measuring.close()
            await self._close()
        log.info("control plane stopped")

    @property
    def leads(self) -> bool:
        """True while this master leads: it dispatches tasks and runs the timers."""
        return self.this.leads

    async def leadership(self) -> Leadership:
        """Return the leading master: this one, or the one that the store names."""
        return await self.this.leadership()

    def now(self) -> float:
        """Return the time of the master's clock, which only goes forward."""
        return self.system.now()

    async def _close(self) -> None:
        """Close what was opened, the store last."""
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.store.close)
            for feature in self._features:
                stack.push_async_callback(feature.close)

    def dismiss(self) -> None:
        """End all followers of events and logs, because the master is about to stop."""
        self.broadcast.end()
        self.logs.dismiss()

    async def watch(self) -> None:
        """Wait for as long as the control plane works; raises the error that stopped it."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _start(self) -> None:
        # In this order: what an earlier leader committed is in what is loaded after that.
        self.this.lead = await self.store.lead(self.this.name)
        await self.state.load()
        self.state.time_limits.watch_all(now=self.system.now())
        if self.this.lead is not None:
            self.state.epoch = self.this.lead.epoch
            await self.leases.give_back_orphans()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.recover(), name="recover")
            group.create_task(self.history.run(), name="history")
            group.create_task(self.keys.run(), name="keys")
            group.create_task(self.timeline.run(), name="timeline")
            group.create_task(self.lost_connections.run(), name="lost_connections")
            group.create_task(self.metering.run(), name="metering")
            group.create_task(self.follower.run(), name="following")
            group.create_task(self.broadcast.run(self.state.signals.news), name="broadcast")
            group.create_task(self._rule(), name="rule")

    async def _rule(self) -> None:
        """Lead whenever no other master does; runs until cancelled."""
        if self.this.lead is not None:
            await self._reign(self.this.lead)
        while True:
            lead = await self._stand()
            if lead is not None:
                await self._reign(lead, taken_over=True)

    async def _stand(self) -> Lead | None:
        """Try to take the lead; returns `None` after a pause if another master has it."""
        try:
            lead = await self.store.lead(self.this.name)
        except StoreUnavailable as error:
            log.warning("cannot stand for the lead", error=str(error))
            lead = None
        if lead is None:
            chance = int.from_bytes(self.system.entropy(1), "big") / 256
            await asyncio.sleep(STAND_EVERY_S * (0.75 + chance / 2))
        return lead

    async def _reign(self, lead: Lead, *, taken_over: bool = False) -> None:
        """Lead until the lead is lost; then go on as a follower."""
        self.this.lead = lead
        self.state.epoch = lead.epoch
        log.info("leading", epoch=lead.epoch)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_lost(lead), name="until lost")
                if taken_over:
                    await self._take_over()
                self.state.signals.wake_all(sessions=())
                group.create_task(self._outbox.run(), name="outbox")
                loops = [loop for feature in self._features for loop in feature.loops]
                for loop in (*self.loops, *loops):
                    group.create_task(_run(loop), name=loop.name)
        except* (LeadershipLost, StoreUnavailable) as trouble:
            log.warning("leads no longer", error=str(trouble.exceptions[0]))
        finally:
            self.this.lead = None
            with contextlib.suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(STOP_DEADLINE_S):
                    await self._outbox.save()
            await lead.resign()
        await asyncio.sleep(PAUSE_AFTER_LOSS_S)

    async def _until_lost(self, lead: Lead) -> None:
        await lead.lost()
        raise LeadershipLost("the connection that held the lead is gone")

    async def _take_over(self) -> None:
        """Know all that was committed under the leaders before, and go on from there."""
        await self.follower.catch_up()
        await self.state.refresh.sessions([*self.state.sessions])
        self.state.time_limits.watch_all(now=self.system.now())
        await self.leases.give_back_orphans()


async def _run(loop: Loop) -> None:
    await loop.run()
