"""The kernel of a master: the services that a fleet cannot run without, over one store."""

from collections.abc import Mapping

from crawlfleet.control.access.authentication import Authentication
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.access.keys import Keys
from crawlfleet.control.access.node_tokens import NodeTokens
from crawlfleet.control.access.projects import Projects
from crawlfleet.control.access.sign_ins import SignIns
from crawlfleet.control.breakers import BreakerOrders
from crawlfleet.control.events.stream import Broadcast, Events
from crawlfleet.control.leases.dispatch import Dispatch
from crawlfleet.control.leases.execution_orders import ExecutionOrders
from crawlfleet.control.leases.fence import Fence
from crawlfleet.control.leases.recalls import Recalls
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.leases.services import NodeServices
from crawlfleet.control.logs.executions import Logs
from crawlfleet.control.logs.retention import LogRetention
from crawlfleet.control.nodes.health import NodeHealth
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.lost_connections import LostConnections
from crawlfleet.control.nodes.orders import NodeOrders
from crawlfleet.control.nodes.probing import HealthProbes, probes_loopback
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.openings import Adapters, Loop
from crawlfleet.control.overview.attention import Attention
from crawlfleet.control.overview.series import Timeline
from crawlfleet.control.quality import Quality
from crawlfleet.control.quotas import Quotas
from crawlfleet.control.services import Services
from crawlfleet.control.state.audit_trail import AuditLog
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.follow import MasterFollower
from crawlfleet.control.state.node_terms import ClusterTerms
from crawlfleet.control.tasks.assign_by_hand import AssignByHand
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.control.tasks.shard_parents import ShardParents
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.control.timers import Timers
from crawlfleet.control.usage import UsageMeter
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.tasks.admission import AdmissionRules
from crawlfleet.model.settings import Settings
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.ports.tables import Expiring


class Kernel:
    """The services of the kernel; features are attached to it by `crawlfleet.master`."""

    def __init__(
        self,
        *,
        store: Store,
        system: System,
        settings: Settings,
        rules: PlacementRules,
        admission: AdmissionRules,
        adapters: Adapters,
        name: str,
        origins: Mapping[str, str],
    ) -> None:
        self.store = store
        self.system = system
        self.settings = settings
        self.services = Services()
        self.this = ThisMaster(
            store=store,
            system=system,
            settings=settings,
            name=name,
            origins=origins,
            task_types=admission.parameter_types,
        )
        self.state = state = FleetState(store=store, system=system, settings=settings)
        terms = ClusterTerms(state=state, settings=settings.session)
        self.follower = MasterFollower(store=store, state=state, system=system, terms=terms)
        self.execution_orders = ExecutionOrders(
            state=state, first=int.from_bytes(system.entropy(4), "big")
        )
        self.node_services = NodeServices(Fence(store=store, state=state))
        """The services that nodes and their executions may call, by name."""
        self.quality = Quality(store=store, state=state, system=system, output=adapters.output)
        self.leases = Leases(
            state=state,
            system=system,
            settings=settings.recovery,
            execution_orders=self.execution_orders,
            measuring=self.quality.measuring,
        )
        self.logs = Logs(store=store, state=state, system=system)
        self.breakers = BreakerOrders(state=state, system=system)
        self.history = NodeHistory(store=store, state=state, system=system)
        self._add_access()
        self._add_nodes(terms)
        self._add_tasks(rules, admission)
        self.metering = UsageMeter(store=store, state=state, system=system, output=adapters.output)
        self.timeline = Timeline(store=store, state=state, system=system)
        self.attention = Attention(
            store=store, state=state, system=system, rules=rules, disk_free=adapters.disk_free
        )
        self.broadcast = Broadcast()
        self.events = Events(
            store=store, broadcast=self.broadcast, position=lambda: state.position.newest
        )
        self.shard_parents = ShardParents(
            store=store, state=state, system=system, measuring=self.quality.measuring
        )
        self.expiring: list[Expiring] = []
        """Rows of features that are removed some time after they ended."""
        dispatch = Dispatch(
            state=state, system=system, rules=rules, settings=settings.dispatch, leases=self.leases
        )
        timers = Timers(
            store=store,
            state=state,
            leases=self.leases,
            system=system,
            session=settings.session,
            recovery=settings.recovery,
            retention=settings.retention,
            expiring=self.expiring,
            history=self.history,
            terms=terms,
            recalls=Recalls(state=state, system=system, settings=settings.health),
        )
        log_retention = LogRetention(store=store, system=system, settings=settings.retention)
        self.loops = [
            Loop("dispatch", dispatch.run),
            Loop("timers", timers.run),
            Loop("metering of the fleet", self.metering.keep),
            Loop("log retention", log_retention.run),
            Loop("parents of shards", self.shard_parents.run),
        ]
        """Loops that run while this master leads, before those of features."""
        if adapters.prober is not None:
            probes = HealthProbes(
                state=state,
                system=system,
                prober=adapters.prober,
                settings=settings.health,
                allow_loopback=probes_loopback(settings),
            )
            self.loops.append(Loop("health probes", probes.run))
        self._offer_services()

    def _add_access(self) -> None:
        store, state, system = self.store, self.state, self.system
        self.node_tokens = NodeTokens(state=state, leases=self.leases, system=system)
        self.keys = Keys(state=state, system=system, tokens=self.node_tokens)
        self.sign_ins = SignIns(
            state=state, system=system, keys=self.keys, settings=self.settings.server
        )
        self.authentication = Authentication(
            keys=self.keys, sign_ins=self.sign_ins, follower=self.follower
        )
        self.audit = AuditLog(store=store)
        self.projects = Projects(store=store, state=state, system=system)
        self.quotas = Quotas(state=state, system=system)

    def _add_nodes(self, terms: ClusterTerms) -> None:
        state, system, settings = self.state, self.system, self.settings
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
            probe_loopback=probes_loopback(settings),
        )
        self.node_orders = NodeOrders(
            state=state, nodes=self.nodes, leases=self.leases, system=system
        )

    def _add_tasks(self, rules: PlacementRules, admission: AdmissionRules) -> None:
        store, state, system = self.store, self.state, self.system
        self.clusters = Clusters(
            store=store,
            state=state,
            system=system,
            strategies=rules.strategies,
            settings=self.settings.session,
        )
        self.tasks = Tasks(
            store=store,
            state=state,
            system=system,
            rules=admission,
            settings=self.settings.tasks,
            quotas=self.quotas,
        )
        self.orders = TaskOrders(store=store, state=state, system=system)
        self.queries = TaskQueries(
            store=store,
            state=state,
            system=system,
            tasks=self.tasks,
            rules=rules,
            warming=self.leases.warming,
        )
        self.assigning = AssignByHand(
            state=state, system=system, rules=rules, tasks=self.tasks, nodes=self.nodes
        )

    def _offer_services(self) -> None:
        self.services.add(
            self.assigning,
            self.attention,
            self.audit,
            self.authentication,
            self.breakers,
            self.clusters,
            self.events,
            self.history,
            self.keys,
            self.leases,
            self.logs,
            self.lost_connections,
            self.metering,
            self.node_orders,
            self.node_services,
            self.node_tokens,
            self.nodes,
            self.orders,
            self.projects,
            self.quality,
            self.queries,
            self.quotas,
            self.sign_ins,
            self.state,
            self.tasks,
            self.this,
            self.timeline,
        )
