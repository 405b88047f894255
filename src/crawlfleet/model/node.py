"""Workers, and the sessions in which they hold leases."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.model.project import DEFAULT_CLUSTER
from crawlfleet.model.resources import NOTHING, Resources, Usage


class NodeStatus(StrEnum):
    PENDING = "pending"
    ONLINE = "online"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    UNRESPONSIVE = "unresponsive"
    OFFLINE = "offline"


class Health(StrEnum):
    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNREACHABLE = "unreachable"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a node that is not as it should be."""

    kind: str
    """What it is about, such as `memory`; a node has at most one condition of each kind."""
    health: Health
    reason: str
    since: float
    value: float | None = None
    """What was measured, where anything was, when the condition began."""
    limit: float | None = None


CONNECTED: Final = frozenset({NodeStatus.ONLINE, NodeStatus.DRAINING, NodeStatus.MAINTENANCE})
"""States in which a node has a live session."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One worker registered with the master. `resources` is capacity, never usage."""

    id: str
    name: str
    created_at: float
    updated_at: float
    cluster_id: str = DEFAULT_CLUSTER
    description: str = ""
    ip_address: str = ""
    port: int = 0
    node_type: str = "standard"
    region: str | None = None
    labels: dict[str, str] = {}
    capabilities: dict[str, Any] = {}
    task_types: tuple[str, ...] = ()
    """The task types it has executors for; empty means that it did not say."""
    resources: Resources = NOTHING
    status: NodeStatus = NodeStatus.PENDING
    health: Health = Health.UNKNOWN
    health_reason: str = ""
    health_at: float | None = None
    """When its health changed last."""
    conditions: tuple[Condition, ...] = ()
    """What its health is made of; none when it is healthy, or not known."""
    probe: bool = False
    """Whether the master may ask its health endpoint, at `ip_address` and `port`."""
    drain_until: float | None = None
    """While it is draining: when what still runs there is taken back."""
    session_id: str | None = None
    token_hash: str = ""
    old_token_hash: str = ""
    """Of the token before the newest, good until that was used or `old_token_until` has come."""
    old_token_until: float = 0.0
    token_due: bool = False
    """Whether the node has been told to fetch itself a new token."""
    revoked_at: float | None = None
    """Since when its tokens are worth nothing."""
    joined_by: str | None = None
    """The id of the join token or key that it was registered with at first."""
    archived_at: float | None = None
    """Since when it is gone for good: it is in no list any more."""
    version: int = 1
    label_overrides: dict[str, str | None] = {}
    """What operators said about labels, which outlasts what the node says; `None` removes one."""
    description_override: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The time in which a node may hold leases; a heartbeat moves its one deadline."""

    id: str
    node_id: str
    started_at: float
    deadline: float
    last_heartbeat: float
    usage: Usage = Usage()
    load: float = 0.0
    ended_at: float | None = None
    end_cause: str = ""
    timeout_s: float = 0.0
    """The longest time-out that the node may believe in: it was told so, and did not say that it
    works by a newer one."""
    beat: int = 0
    """The number of the newest heartbeat that was heard."""
    configuration_version: int = 0
    """The version of its cluster's configuration that the node says it runs."""
    version: int = 1
