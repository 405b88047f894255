"""Projects and clusters."""

from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.model.quota import NO_LIMITS, Allowance

LogLevel = Literal["debug", "info", "warning", "error"]
Interval = Annotated[float, Meta(ge=0.1, le=3600)]
Timeout = Annotated[float, Meta(ge=1, le=86_400)]
Slots = Annotated[int, Meta(ge=0, le=100_000)]
StrategyName = Annotated[str, Meta(min_length=1, max_length=64)]


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a cluster that replace those of the fleet, where they are set."""

    default_strategy: StrategyName | None = None
    """Strategy for tasks that name none."""
    heartbeat_interval_s: Interval | None = None
    """Seconds between heartbeats of a node."""
    session_timeout_s: Timeout | None = None
    """Seconds without a heartbeat after which a node loses its session; more than twice the
    interval."""
    log_level: LogLevel | None = None
    """Lowest level of the lines in a node's log file."""
    max_slots: Slots | None = None
    """Maximum number of executions at once on a node, however many slots it offers; 0 for none."""


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a cluster's settings; never changed."""

    id: str
    cluster_id: str
    number: int
    """Number of the version, from 1; the cluster uses the highest."""
    settings: ClusterSettings
    created_at: float
    cause: str
    """Description of the change, with its author."""
    version: int = 1


class NodeTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings that the master sends to a node: those of its cluster, completed by the fleet's."""

    version: int
    """Version of the cluster's configuration; the node reports it with its next heartbeat."""
    heartbeat_interval_s: float
    session_timeout_s: float
    log_level: LogLevel | None = None
    """Log level; the node's own when not set."""
    max_slots: int | None = None
    """Limit for executions at once; the node's own when not set."""


def configuration_id(cluster_id: str, number: int) -> str:
    """The id of a version of a cluster's configuration; ids of clusters have no slash."""
    return f"{cluster_id}/{number}"


DEFAULT_PROJECT: Final = "default"
DEFAULT_CLUSTER: Final = "default"


class ProjectStatus(StrEnum):
    ACTIVE = "active"
    CLOSED = "closed"
    """The project takes no new tasks; existing tasks continue."""


class ClusterStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    """The cluster takes no new tasks, and its nodes get no work; running work continues."""
    MAINTENANCE = "maintenance"
    """Nodes of the cluster get no work; submitted tasks wait; running work continues."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant: it owns clusters and tasks, and has quotas and a share of the fleet."""

    id: str
    name: str
    created_at: float
    updated_at: float
    description: str = ""
    status: ProjectStatus = ProjectStatus.ACTIVE
    version: int = 1
    allowance: Allowance = NO_LIMITS


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A named group of nodes with its own configuration, owned by a project."""

    id: str
    project_id: str
    """Project that owns the cluster; clusters of the default project are shared by all projects."""
    name: str
    created_at: float
    updated_at: float
    description: str = ""
    configuration: ClusterSettings = ClusterSettings()
    configuration_version: int = 0
    """Number of changes of the configuration; 0 until the first."""
    status: ClusterStatus = ClusterStatus.ACTIVE
    version: int = 1

    @property
    def is_shared(self) -> bool:
        """Return whether tasks of all projects may run on its nodes."""
        return self.project_id == DEFAULT_PROJECT

    def is_open_to(self, project_id: str | None) -> bool:
        """Return whether tasks of the project may run on its nodes; `None` stands for all
        projects."""
        return project_id is None or self.is_shared or self.project_id == project_id
