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
    """A problem of a node."""

    kind: str
    """Kind of problem, such as `memory`; a node has at most one condition of each kind."""
    health: Health
    reason: str
    since: float
    value: float | None = None
    """Measured value when the condition began; `None` where nothing was measured."""
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
    """Task types that the node has executors for; empty when the node did not report any."""
    resources: Resources = NOTHING
    status: NodeStatus = NodeStatus.PENDING
    health: Health = Health.UNKNOWN
    health_reason: str = ""
    health_at: float | None = None
    """Time of the last change of its health."""
    conditions: tuple[Condition, ...] = ()
    """Conditions that determine the health; none when it is healthy or unknown."""
    probe: bool = False
    """True if the master may probe its health endpoint, at `ip_address` and `port`."""
    drain_until: float | None = None
    """Time when work that still runs on the draining node is taken back."""
    session_id: str | None = None
    token_hash: str = ""
    old_token_hash: str = ""
    """Hash of the previous token, valid until the new one is used or `old_token_until` has
    passed."""
    old_token_until: float = 0.0
    token_due: bool = False
    """True if the master has asked the node to fetch a new token."""
    revoked_at: float | None = None
    """Time since which its tokens are invalid."""
    joined_by: str | None = None
    """Id of the join token or key of its first registration."""
    archived_at: float | None = None
    """Time since which the node is removed and not listed any more."""
    version: int = 1
    label_overrides: dict[str, str | None] = {}
    """Labels that operators set, which take precedence over the node's own; `None` removes one."""
    description_override: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A node's right to hold leases, until a deadline that each heartbeat extends."""

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
    """Longest session timeout that the node may still use: it was sent to the node, and the node
    did not yet report that it uses a newer one."""
    beat: int = 0
    """Number of the newest heartbeat that was received."""
    configuration_version: int = 0
    """Version of its cluster's configuration that the node reports."""
    version: int = 1
