"""Tenants and their groups of nodes."""

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
    """What holds for a cluster in place of the fleet's settings, where it is set."""

    default_strategy: StrategyName | None = None
    """How nodes are ranked for tasks that name no strategy."""
    heartbeat_interval_s: Interval | None = None
    """How often a node says that it is alive."""
    session_timeout_s: Timeout | None = None
    """A node that is silent for so long loses its session; more than twice the interval."""
    log_level: LogLevel | None = None
    """The least important lines that a node writes to its log."""
    max_slots: Slots | None = None
    """At most so many executions run at once on a node, however many it offers; 0 for none."""


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster from one change to the next; written once and kept."""

    id: str
    cluster_id: str
    number: int
    """1 for the first change; the cluster runs the highest."""
    settings: ClusterSettings
    created_at: float
    cause: str
    """Who changed what, in words."""
    version: int = 1


class NodeTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node is told to work by: the settings of its cluster, filled up by the fleet's."""

    version: int
    """Of the cluster's configuration; the node's next heartbeat says which one it runs."""
    heartbeat_interval_s: float
    session_timeout_s: float
    log_level: LogLevel | None = None
    """The node's own when not set."""
    max_slots: int | None = None
    """The node's own when not set."""


def configuration_id(cluster_id: str, number: int) -> str:
    """The id of a version of a cluster's configuration; ids of clusters have no slash."""
    return f"{cluster_id}/{number}"


DEFAULT_PROJECT: Final = "default"
DEFAULT_CLUSTER: Final = "default"


class ProjectStatus(StrEnum):
    ACTIVE = "active"
    CLOSED = "closed"
    """It takes no new tasks; those that it has go on."""


class ClusterStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    """Closed: it takes no new tasks, and its nodes get no work; what runs goes on."""
    MAINTENANCE = "maintenance"
    """Its nodes get no work, while tasks may be submitted and wait; what runs goes on."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant: owns clusters and tasks, and has its quotas and its share of the fleet."""

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
    """Whose it is; those of the default project are shared by all projects."""
    name: str
    created_at: float
    updated_at: float
    description: str = ""
    configuration: ClusterSettings = ClusterSettings()
    configuration_version: int = 0
    """Counts the changes of its configuration; 0 until the first."""
    status: ClusterStatus = ClusterStatus.ACTIVE
    version: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether tasks of all projects may run on its nodes."""
        return self.project_id == DEFAULT_PROJECT

    def is_open_to(self, project_id: str | None) -> bool:
        """Whether tasks of the project may run on its nodes; `None` stands for all projects."""
        return project_id is None or self.is_shared or self.project_id == project_id
