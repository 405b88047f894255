"""The control plane as one thing: start in order, run together, stop in order.

Start: open the store, take the lead if nobody has it, load, then begin to act. Every master serves
the API and follows what the others commit; the one that leads also dispatches, watches the clock
and carries events out. One that loses the lead goes on as a follower, and stands for it again.
Stop: no new work, let running commits finish, save the cursor, resign, close the store.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from crawlfleet.control.access.authentication import Authentication
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.access.keys import Keys
from crawlfleet.control.access.node_tokens import NodeTokens
from crawlfleet.control.access.projects import Projects
from crawlfleet.control.access.sign_ins import SignIns
from crawlfleet.control.breaker_orders import BreakerOrders
from crawlfleet.control.events.outbox import Outbox
from crawlfleet.control.events.stream import Broadcast, Events
from crawlfleet.control.leases.dispatch import Dispatch
from crawlfleet.control.leases.execution_orders import ExecutionOrders
from crawlfleet.control.leases.fence import Fence
from crawlfleet.control.leases.recalls import Recalls
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.leases.services import Services
from crawlfleet.control.logs.executions import Logs
from crawlfleet.control.logs.retention import LogRetention
from crawlfleet.control.nodes.health import NodeHealth
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.lost_connections import LostConnections
from crawlfleet.control.nodes.orders import NodeOrders
from crawlfleet.control.nodes.probing import HealthProbes, probes_loopback
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.overview.attention import Attention
from crawlfleet.control.overview.series import Timeline
from crawlfleet.control.quality import Quality
from crawlfleet.control.quotas import Quotas
from crawlfleet.control.state.audit_trail import AuditLog
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.follow import MasterFollower
from crawlfleet.control.state.node_terms import ClusterTerms
from crawlfleet.control.tasks.assign_by_hand import AssignByHand
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.control.tasks.shard_parents import ShardParents
from crawlfleet.control.timers import Timers
from crawlfleet.control.usage import UsageMeter
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.errors import LeadershipLost, StoreUnavailable
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.ledger import LedgerService
from crawlfleet.features.crawls.locks import LockService
from crawlfleet.features.crawls.remote_frontiers import remote_frontiers_on
from crawlfleet.features.crawls.service import Crawls
from crawlfleet.features.crawls.work import CrawlWorkers
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.table import old_firings, removed_schedules
from crawlfleet.features.secrets.service import Secrets
from crawlfleet.features.webhooks.feature import Telling
from crawlfleet.features.webhooks.table import removed_webhooks, settled_deliveries
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.features.workflows.table import ended_runs
from crawlfleet.model.bundle import BundleFetch
from crawlfleet.model.settings import Settings
from crawlfleet.model.wire import services
from crawlfleet.model.wire.locks import LockRequest
from crawlfleet.model.wire.output import SegmentUpload
from crawlfleet.model.wire.politeness import LedgerRequest
from crawlfleet.ports.courier import Sender
from crawlfleet.ports.events import EventSink
from crawlfleet.ports.files import BundleStore
from crawlfleet.ports.frontier.host import FrontierFolders, FrontierServer
from crawlfleet.ports.health_probe import Prober
from crawlfleet.ports.ledger import LedgerBook
from crawlfleet.ports.locks import Locks
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.seal import Seal
from crawlfleet.ports.store import Lead, Leadership, Store
from crawlfleet.ports.system import System
from crawlfleet.ports.tables import Expiring
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
STOP_DEADLINE_S: Final = 5.0
STAND_EVERY_S: Final = 0.5
"""How often one that does not lead asks whether it may: part of the time that a take-over takes."""
PAUSE_AFTER_LOSS_S: Final = 0.5


class ControlPlane(Authentication):
    """All services of the master over one store. An async context manager."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        rules: PlacementRules,
        admission: AdmissionRules,
        sinks: Sequence[EventSink] = (),
        prober: Prober | None = None,
        name: str = "master",
        origins: Mapping[str, str] | None = None,
        output: OutputStore | None = None,
        archives: BundleStore | None = None,
        seal: Seal | None = None,
        shelf: FrontierFolders | None = None,
        server: FrontierServer | None = None,
        locks: Locks | None = None,
        ledger: LedgerBook | None = None,
        courier: Sender | None = None,
        disk_free: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`output` is where crawls' output is kept; without it, crawls need sinks of their own.
        `archives` is where the code of bundles is kept; without it, none is taken. `seal` is what
        makes secrets unreadable in the store; without it, none are kept.
        `shelf` is where their frontiers are; without it, they stay on the nodes. Those that
        several nodes work for can be on a `server`. `locks` and `ledger` are what executions may
        ask for; without them they are told so. `courier` carries what webhooks are told; without
        one nobody is. `disk_free` is the free share of the disk with the master's data."""
        self._store = store
        self._system = system
        self.settings = settings
        self.origins = origins or {}
        """Where the value of each setting came from, by its dotted name."""
        self._name = name
        self.state = state = FleetState(store=store, system=system, settings=settings)
        terms = ClusterTerms(state=state, settings=settings.session)
        self._following = MasterFollower(store=store, state=state, system=system, terms=terms)
        execution_orders = ExecutionOrders(
            state=state, first=int.from_bytes(system.entropy(4), "big")
        )
        self.quality = Quality(store=store, state=state, system=system, output=output)
        self.leases = Leases(
            state=state,
            system=system,
            settings=settings.recovery,
            execution_orders=execution_orders,
            measuring=self.quality.measuring,
        )
        self.logs = Logs(
            store=store,
            state=state,
            system=system,
            settings=settings.webhooks,
            counts=lambda crawl_id: self.frontiers.last_counts(crawl_id),
        )
        self._log_keeping = LogRetention(store=store, system=system, settings=settings.retention)
        self.breakers = BreakerOrders(state=state, system=system)
        self.history = NodeHistory(store=store, state=state, system=system)
        self.node_tokens = NodeTokens(state=state, leases=self.leases, system=system)
        self.keys = Keys(state=state, system=system, tokens=self.node_tokens)
        self.sign_ins = SignIns(
            state=state, system=system, keys=self.keys, settings=settings.server
        )
        self.audit = AuditLog(store=store)
        probe_loopback = probes_loopback(settings)
        self.lost_connections = LostConnections(
            state=state, leases=self.leases, settings=settings.session
        )
        self.nodes = Nodes(
            state=state,
            leases=self.leases,
            lost_connections=self.lost_connections,
            history=self.history,
            health=NodeHealth(state=state, settings=settings.health, system=system),
            system=system,
            terms=terms,
            probe_loopback=probe_loopback,
        )
        self.node_orders = NodeOrders(
            state=state, nodes=self.nodes, leases=self.leases, system=system
        )
        self._probing: HealthProbes | None = None
        if prober is not None:
            self._probing = HealthProbes(
                state=state,
                system=system,
                prober=prober,
                settings=settings.health,
                allow_loopback=probe_loopback,
            )
        self.projects = Projects(store=store, state=state, system=system)
        self.clusters = Clusters(
            store=store,
            state=state,
            system=system,
            strategies=rules.strategies,
            settings=settings.session,
        )
        self.bundles = Bundles(
            store=store,
            state=state,
            system=system,
            projects=self.projects,
            settings=settings.tasks,
            archives=archives,
            warming=self.leases.warming,
        )
        self.vault = Secrets(
            store=store,
            state=state,
            system=system,
            projects=self.projects,
            settings=settings.tasks,
            seal=seal,
        )
        self.quotas = Quotas(state=state, system=system)
        self.metering = UsageMeter(store=store, state=state, system=system, output=output)
        self.tasks = Tasks(
            store=store,
            state=state,
            system=system,
            rules=admission,
            settings=settings.tasks,
            bundles=self.bundles,
            vault=self.vault,
            quotas=self.quotas,
            private_callbacks=settings.webhooks.allow_private,
        )
        self.orders = TaskOrders(store=store, state=state, system=system)
        self.workflows = Workflows(
            store=store, state=state, system=system, tasks=self.tasks, orders=self.orders
        )
        self.schedules = Schedules(
            store=store, state=state, system=system, tasks=self.tasks, workflows=self.workflows
        )
        self._placing = remote_frontiers_on(
            shelf, store=store, state=state, system=system, server=server, output=output
        )
        self.frontiers = Frontiers(state=state, shelf=shelf, remote=self._placing)
        self.crawls = Crawls(
            store=store,
            state=state,
            system=system,
            tasks=self.tasks,
            execution_orders=execution_orders,
            frontiers=self.frontiers,
            output=output,
        )
        self._locks = LockService(locks)
        self.ledger = LedgerService(state=state, book=ledger)
        self.services = Services(Fence(store=store, state=state))
        self._register_services()
        self.workforce = CrawlWorkers(
            store=store,
            state=state,
            crawls=self.crawls,
            frontiers=self.frontiers,
            ledger=self.ledger,
        )
        self.queries = TaskQueries(
            store=store, state=state, system=system, tasks=self.tasks, rules=rules
        )
        self.timeline = Timeline(store=store, state=state, system=system)
        self.attention = Attention(
            store=store,
            state=state,
            system=system,
            rules=rules,
            figures=self.crawls.live_figures,
            disk_free=disk_free,
        )
        self.task_types = admission.parameter_types
        self.assigning = AssignByHand(
            state=state, system=system, rules=rules, tasks=self.tasks, nodes=self.nodes
        )
        self._dispatch = Dispatch(
            state=state, system=system, rules=rules, settings=settings.dispatch, leases=self.leases
        )
        self._timers = Timers(
            store=store,
            state=state,
            leases=self.leases,
            system=system,
            session=settings.session,
            recovery=settings.recovery,
            retention=settings.retention,
            expiring=[
                Expiring(settings.retention.schedules_days, old_firings),
                Expiring(settings.retention.schedules_days, removed_schedules),
                Expiring(settings.retention.runs_days, ended_runs),
                Expiring(settings.retention.deliveries_days, settled_deliveries),
                Expiring(settings.retention.deliveries_days, removed_webhooks),
            ],
            history=self.history,
            terms=terms,
            recalls=Recalls(state=state, system=system, settings=settings.health),
        )
        self._broadcast = Broadcast()
        self._gathering = ShardParents(
            store=store, state=state, system=system, measuring=self.quality.measuring
        )
        telling = partial(Telling, store=store, state=state, system=system, settings=settings)
        self.telling = telling(courier=courier, seal=seal, disk_free=disk_free)
        # Last: what they may raise must not keep the others from hearing.
        hearers = [*sinks, self._gathering, self.workflows.advancing, self.telling]
        self._outbox = Outbox(store=store, state=state, sinks=hearers)
        self.events = Events(
            store=store, broadcast=self._broadcast, position=lambda: state.position.newest
        )
        self._lead: Lead | None = None
        self._running: asyncio.Task[None] | None = None

    def now(self) -> float:
        """What the master's clock says."""
        return self._system.now()

    def wall(self) -> float:
        """What the clock of the master's machine says, by which keys and sessions expire."""
        return self._system.wall()

    async def __aenter__(self) -> Self:
        await self._store.open()
        try:
            await self._locks.open()
            await self.ledger.open()
            await self._start()
        except BaseException:
            await self._locks.close()
            await self.ledger.close()
            await self._store.close()
            raise
        self._running = asyncio.create_task(self._run(), name="control plane")
        log.info(
            "control plane started",
            leads=self.leads,
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
            await self.telling.close()
            await self._locks.close()
            await self.ledger.close()
            await self._store.close()
        log.info("control plane stopped")

    def _register_services(self) -> None:
        register = self.services.register
        register(services.OUTPUT, self.crawls.store_segment, payload=SegmentUpload)
        register(services.FRONTIER, self.frontiers.answer)
        register(services.LOCKS, self._locks.answer, payload=LockRequest)
        register(services.LEDGER, self.ledger.answer, payload=LedgerRequest)
        register(services.CODE, self.bundles.give_code)
        register(services.SECRETS, self.vault.give)
        self.services.register_for_nodes(
            services.BUNDLE, self.bundles.give_bundle, payload=BundleFetch
        )

    @property
    def leads(self) -> bool:
        """Whether this master dispatches and watches the clock."""
        return self._lead is not None

    async def leadership(self) -> Leadership:
        """Who leads: this master, or whom the store names."""
        if self._lead is not None:
            return Leadership(epoch=self._lead.epoch, leader=self._name)
        return await self._store.leadership()

    def dismiss(self) -> None:
        """Let those who follow events or logs go: the master is about to stop."""
        self._broadcast.end()
        self.logs.dismiss()

    async def watch(self) -> None:
        """Wait for as long as the control plane works; raises what made it stop."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def _start(self) -> None:
        # In this order: what an earlier leader committed is in what is loaded after that.
        self._lead = await self._store.lead(self._name)
        await self.state.load()
        self.state.time_limits.watch_all(now=self._system.now())
        if self._lead is not None:
            self.state.epoch = self._lead.epoch
            await self.leases.give_back_orphans()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.recover(), name="recover")
            group.create_task(self.history.run(), name="history")
            group.create_task(self.keys.run(), name="keys")
            group.create_task(self.timeline.run(), name="timeline")
            group.create_task(self.lost_connections.run(), name="lost_connections")
            group.create_task(self.metering.run(), name="metering")
            group.create_task(self._following.run(), name="following")
            group.create_task(self._broadcast.run(self.state.signals.news), name="broadcast")
            group.create_task(self._rule(), name="rule")

    async def _rule(self) -> None:
        """Lead whenever nobody else does."""
        if self._lead is not None:
            await self._reign(self._lead)
        while True:
            lead = await self._stand()
            if lead is not None:
                await self._reign(lead, taken_over=True)

    async def _stand(self) -> Lead | None:
        """The lead, or nothing after a while."""
        try:
            lead = await self._store.lead(self._name)
        except StoreUnavailable as error:
            log.warning("cannot stand for the lead", error=str(error))
            lead = None
        if lead is None:
            chance = int.from_bytes(self._system.entropy(1), "big") / 256
            await asyncio.sleep(STAND_EVERY_S * (0.75 + chance / 2))
        return lead

    async def _reign(self, lead: Lead, *, taken_over: bool = False) -> None:
        """Lead until the lead is lost; then go on as one that follows."""
        self._lead = lead
        self.state.epoch = lead.epoch
        log.info("leading", epoch=lead.epoch)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_lost(lead), name="until lost")
                if taken_over:
                    await self._take_over()
                self.state.signals.wake_all(sessions=())
                group.create_task(self._dispatch.run(), name="dispatch")
                group.create_task(self._timers.run(), name="timers")
                group.create_task(self.metering.keep(), name="metering of the fleet")
                group.create_task(self._log_keeping.run(), name="log keeping")
                group.create_task(self.schedules.alarms.run(), name="alarms")
                group.create_task(self._outbox.run(), name="outbox")
                group.create_task(self.telling.run(), name="telling")
                group.create_task(self._gathering.run(), name="gathering")
                group.create_task(self.workflows.advancing.run(), name="advancing")
                group.create_task(self.crawls.run(), name="crawls")
                group.create_task(self.bundles.run(), name="bundles")
                group.create_task(self.frontiers.run(), name="frontiers")
                group.create_task(self.ledger.run(), name="ledger")
                for name, optional in (("placing", self._placing), ("probing", self._probing)):
                    if optional is not None:
                        group.create_task(optional.run(), name=name)
        except* (LeadershipLost, StoreUnavailable) as trouble:
            log.warning("leads no longer", error=str(trouble.exceptions[0]))
        finally:
            self._lead = None
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
        await self._following.catch_up()
        await self.state.refresh.sessions([*self.state.sessions])
        self.state.time_limits.watch_all(now=self._system.now())
        await self.leases.give_back_orphans()
