"""Clusters: made, read, changed and closed; their settings by version, and how they are."""

from collections import Counter
from collections.abc import Callable, Collection

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.core.access import projects
from crawlfleet.core.nodes import cluster_health
from crawlfleet.core.nodes.cluster_health import Vitals
from crawlfleet.core.resources import subtract
from crawlfleet.errors import Conflict, FieldProblem, NotFound
from crawlfleet.model.admin_requests import ClusterHealth, ClusterPatch, ClusterRequest
from crawlfleet.model.change import Change
from crawlfleet.model.node import CONNECTED, Node, NodeStatus
from crawlfleet.model.project import Cluster, ClusterConfiguration, ClusterSettings, ClusterStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import SessionSettings
from crawlfleet.ports.kernel_tables import configurations_of
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System


class Clusters:
    """Creates, changes and closes clusters of nodes."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        strategies: Collection[str],
        settings: SessionSettings,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._strategies = strategies
        self._settings = settings

    def get(self, cluster_id: str) -> Cluster:
        """The cluster, or `NotFound`."""
        cluster = self._state.clusters.get(cluster_id)
        if cluster is None:
            raise NotFound("cluster", cluster_id)
        return cluster

    async def find(self, cluster_id: str, *, project_id: str | None = None) -> Cluster:
        """The cluster, or `NotFound`; also one that another master made a moment ago.

        With `project_id` only those exist that are open to the project.
        """
        if cluster_id not in self._state.clusters:
            await self._state.refresh.clusters()
        cluster = self.get(cluster_id)
        if not cluster.is_open_to(project_id):
            raise NotFound("cluster", cluster_id)
        return cluster

    def page(
        self, *, after: str | None, limit: int, project_id: str | None = None
    ) -> list[Cluster]:
        """Return up to `limit` clusters open to the project, beyond an id and in order of id."""
        ids = sorted(
            cluster.id
            for cluster in self._state.clusters.values()
            if cluster.is_open_to(project_id) and (after is None or cluster.id > after)
        )
        return [self._state.clusters[id] for id in ids[:limit]]

    def hidden_from(self, project_id: str | None) -> frozenset[str]:
        """The ids of the clusters that a key of the project must not learn of."""
        return frozenset(
            cluster.id
            for cluster in self._state.clusters.values()
            if not cluster.is_open_to(project_id)
        )

    async def create(self, request: ClusterRequest, *, by: str) -> tuple[Cluster, bool]:
        """The cluster, and whether it is new; `Conflict` if another has the id."""
        accept(projects.text_problems(request))
        self._check(request.configuration)
        if request.project_id not in self._state.projects:
            await self._state.refresh.projects()
        if request.project_id not in self._state.projects:
            accept([_no_project(request.project_id)])
        now = self._system.now()
        change = projects.new_cluster(request, now=now, cause=f"created by {by}")
        (wanted,) = change.of(Cluster)
        if request.id not in self._state.clusters:
            (refusal,) = await self._state.commit([change])
            if refusal is None:
                return wanted, True
        # Perhaps by this very request, which another master has answered unheard.
        there = self._state.clusters.get(request.id)
        if there is None:
            raise has_changed(request.id)
        if _essence(there) != _essence(wanted):
            raise Conflict(f"there is a cluster {request.id!r} already; PATCH changes it")
        return there, False

    async def change(
        self, cluster_id: str, patch: ClusterPatch, *, by: str, if_version: int | None = None
    ) -> Cluster:
        """Change the fields of a cluster that the patch sets."""
        accept(projects.text_problems(patch))

        def decide(cluster: Cluster, now: float) -> Change | None:
            self._check(projects.merged(cluster.configuration, patch.configuration))
            cause = f"changed by {by}"
            return projects.changed_cluster(cluster, patch, now=now, cause=cause)

        return await self._make(cluster_id, decide, if_version)

    async def move(
        self, cluster_id: str, status: ClusterStatus, *, by: str, if_version: int | None = None
    ) -> Cluster:
        """Give the cluster another status."""

        def decide(cluster: Cluster, now: float) -> Change | None:
            cause = f"made {status} by {by}"
            return projects.moved_cluster(cluster, status, now=now, cause=cause)

        return await self._make(cluster_id, decide, if_version)

    async def roll_back(
        self, cluster_id: str, number: int, *, by: str, if_version: int | None = None
    ) -> Cluster:
        """Make the settings of an earlier version those of a new one."""
        settings = await self._settings_of(await self.find(cluster_id), number)
        # The fleet may have changed since: a strategy may be gone.
        self._check(settings)

        def decide(cluster: Cluster, now: float) -> Change | None:
            cause = f"rolled back to version {number} by {by}"
            return projects.reconfigured(cluster, settings, now=now, cause=cause)

        return await self._make(cluster_id, decide, if_version)

    async def configurations(
        self, cluster_id: str, *, below: int | None, limit: int
    ) -> list[ClusterConfiguration]:
        """Versions of its settings, newest first."""
        await self.find(cluster_id)
        return await self._store.find(configurations_of(cluster_id, before=below, limit=limit))

    async def health(self, cluster_id: str) -> ClusterHealth:
        """Return the health of a cluster, by its worst trouble; raises `NotFound`."""
        cluster = await self.find(cluster_id)
        tasks = await self._store.count_unfinished(cluster_id)
        nodes = [each for each in self._state.nodes.values() if each.cluster_id == cluster_id]
        online = [each for each in nodes if each.status is NodeStatus.ONLINE]
        offered = [_offered(each, cluster) for each in online]
        used = [self._state.fleet.reserved(each.id) for each in online]
        free = cluster_health.total(map(subtract, offered, used))
        ready, oldest_s = self._ready(cluster_id)
        vitals = Vitals(
            cluster_id=cluster_id,
            status=cluster.status,
            nodes=Counter(each.status for each in nodes),
            health=Counter(each.health for each in nodes if each.status in CONNECTED),
            free=free,
            ready=ready,
            oldest_ready_s=oldest_s,
            outdated_nodes=sum(self._is_outdated(each, cluster) for each in nodes),
        )
        troubles = cluster_health.troubles_of(vitals)
        return ClusterHealth(
            cluster_id=cluster_id,
            status=str(cluster.status),
            health=cluster_health.verdict_of(troubles),
            troubles=troubles,
            nodes={str(status): count for status, count in vitals.nodes.items()},
            node_health={str(health): count for health, count in vitals.health.items()},
            capacity=cluster_health.total(offered),
            used=cluster_health.total(used),
            free=free,
            tasks={str(status): count for status, count in tasks.items()},
            ready=ready,
            oldest_ready_s=oldest_s,
            configuration_version=cluster.configuration_version,
            outdated_nodes=vitals.outdated_nodes,
        )

    def _ready(self, cluster_id: str) -> tuple[int, float | None]:
        queue = self._state.queue
        wanted = {
            requirement: count
            for requirement, count in queue.requirements().items()
            if requirement.cluster_id == cluster_id
        }
        made = [at for each in wanted if (at := queue.oldest(each)) is not None]
        if not made:
            return 0, None
        return sum(wanted.values()), round(max(self._system.now() - min(made), 0.0), 3)

    def _is_outdated(self, node: Node, cluster: Cluster) -> bool:
        session = self._state.sessions.get(node.session_id or "")
        return session is not None and (
            session.configuration_version != cluster.configuration_version
        )

    async def _settings_of(self, cluster: Cluster, number: int) -> ClusterSettings:
        if number == 0:
            return ClusterSettings()
        found = await self._store.find(configurations_of(cluster.id, before=number + 1, limit=1))
        if not found or found[0].number != number:
            accept(
                [
                    FieldProblem(
                        field="version",
                        value=number,
                        message=f"is not a version of {cluster.id}",
                        remedy=f"use a number from 0 to {cluster.configuration_version}",
                    )
                ]
            )
        return found[0].settings

    def _check(self, settings: ClusterSettings) -> None:
        accept(
            projects.settings_problems(settings, strategies=self._strategies, fleet=self._settings)
        )

    async def _make(
        self,
        cluster_id: str,
        decide: Callable[[Cluster, float], Change | None],
        if_version: int | None,
    ) -> Cluster:
        async def present() -> tuple[Cluster, Change | None]:
            # What another master has just changed counts: else it might seem to be as wanted.
            await self._state.refresh.clusters()
            cluster = self.get(cluster_id)
            change = decide(cluster, self._system.now())
            if change is None:
                return cluster, None
            expect_version(cluster_id, cluster.version, if_version)
            return change.of(Cluster)[0], change

        return await self._state.decide(cluster_id, present)


def _offered(node: Node, cluster: Cluster) -> Resources:
    """Return the node's own resources, with its slots cut to the limit of the cluster."""
    limit = cluster.configuration.max_slots
    if limit is None:
        return node.resources
    return msgspec.structs.replace(node.resources, slots=min(node.resources.slots, limit))


def _essence(cluster: Cluster) -> tuple[object, ...]:
    return cluster.project_id, cluster.name, cluster.description, cluster.configuration


def _no_project(project_id: str) -> FieldProblem:
    return FieldProblem(
        field="project_id",
        value=project_id,
        message="is not a project",
        remedy="create it first: POST /api/v1/projects, or `crawlfleet projects create`",
    )
