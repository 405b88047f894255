"""Nodes as the API shows them."""

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Self

import msgspec

from crawlfleet.core.placement.regions import locate
from crawlfleet.model.node import Condition, Health, Node, NodeStatus, Session
from crawlfleet.model.node_sample import NodeSample
from crawlfleet.model.resources import Resources
from crawlfleet.views.fields import instant, moment, names

NodeState = Annotated[str, names(NodeStatus)]


class NodeSampleView(msgspec.Struct, frozen=True, kw_only=True):
    """A node's measurements at an instant, or their means over the time that follows it."""

    at: datetime
    count: int
    """Number of heartbeats in the sample."""
    cpu_usage: float
    memory_usage: float
    gpu_usage: float | None
    network_io: float
    disk_io: float
    load: float
    active_tasks: float
    ended: int
    """Executions that ended since the previous sample."""
    errors: int
    """Executions that ended without success since the previous sample."""
    latency_s: float | None
    """Mean duration of the executions that ended."""
    disk_usage: float | None = None
    wait_s: float | None = None
    """Mean time that executions waited at the node before they started."""

    @classmethod
    def of(cls, sample: NodeSample) -> Self:
        return cls(
            at=moment(sample.at),
            count=sample.count,
            cpu_usage=sample.cpu_usage,
            memory_usage=sample.memory_usage,
            gpu_usage=sample.gpu_usage,
            network_io=sample.network_io,
            disk_io=sample.disk_io,
            load=sample.load,
            active_tasks=sample.active_tasks,
            ended=sample.ended,
            errors=sample.errors,
            latency_s=sample.latency_s,
            disk_usage=sample.disk_usage,
            wait_s=sample.wait_s,
        )


class NodeHistoryView(msgspec.Struct, frozen=True, kw_only=True):
    """A node over time, oldest first."""

    node_id: str
    resolution: str
    items: list[NodeSampleView]


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A point on the map, in degrees."""

    latitude: float
    longitude: float

    @staticmethod
    @lru_cache(maxsize=1000)
    def of(region: str | None) -> "Location | None":
        """The middle of a region, where that is known."""
        place = locate(region) if region else None
        if place is None:
            return None
        return Location(latitude=place.latitude, longitude=place.longitude)


class ConditionView(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a node."""

    kind: str
    """`cpu`, `memory`, `disk`, `errors`, `latency`, `clock` or `probe`."""
    health: Annotated[str, names(Health)]
    reason: str
    since: datetime
    value: float | None = None
    """Measured value when the condition began, in the unit of its setting; `null` if none."""
    limit: float | None = None
    """Limit that the value exceeds."""

    @classmethod
    def of(cls, condition: Condition) -> Self:
        return cls(
            kind=condition.kind,
            health=str(condition.health),
            reason=condition.reason,
            since=moment(condition.since),
            value=condition.value,
            limit=condition.limit,
        )


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node: capacity in `resources`, the newest measurement in `usage`."""

    id: str
    name: str
    description: str
    cluster_id: str
    ip_address: str
    port: int
    node_type: str
    region: str | None
    labels: dict[str, str]
    capabilities: dict[str, Any]
    task_types: tuple[str, ...]
    resources: Resources
    status: NodeState
    health: Annotated[str, names(Health)]
    usage: dict[str, float | None]
    load: float
    active_tasks: tuple[str, ...]
    last_heartbeat: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int = 0
    """Increases with each change except heartbeats; the `ETag` begins with it."""
    configuration_version: int | None = None
    """Version of the cluster's settings that the node reports."""
    location: Location | None = None
    """Centre of the `region`, where it is known."""
    health_reason: str = ""
    """Reason why the node is not healthy; empty when it is."""
    health_at: datetime | None = None
    """Time since which the node has this health."""
    conditions: tuple[ConditionView, ...] = ()
    """Conditions that determine the health."""
    probe: bool = False
    """True if the master probes the node's health endpoint."""
    drain_until: datetime | None = None
    """Time when work that still runs on a draining node is taken back."""

    @classmethod
    def of(cls, node: Node, session: Session | None, active_tasks: tuple[str, ...]) -> Self:
        return cls(
            id=node.id,
            name=node.name,
            description=node.description,
            cluster_id=node.cluster_id,
            ip_address=node.ip_address,
            port=node.port,
            node_type=node.node_type,
            region=node.region,
            labels=node.labels,
            capabilities=node.capabilities,
            task_types=node.task_types,
            resources=node.resources,
            status=str(node.status),
            health=str(node.health),
            health_reason=node.health_reason,
            health_at=instant(node.health_at),
            conditions=tuple(ConditionView.of(each) for each in node.conditions),
            usage=msgspec.structs.asdict(session.usage) if session else {},
            load=session.load if session else 0.0,
            active_tasks=active_tasks,
            last_heartbeat=instant(session.last_heartbeat) if session else None,
            created_at=moment(node.created_at),
            updated_at=moment(node.updated_at),
            version=node.version,
            configuration_version=session.configuration_version if session else None,
            location=Location.of(node.region),
            probe=node.probe,
            drain_until=instant(node.drain_until),
        )


class NodePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[NodeView]
    next_cursor: str | None
