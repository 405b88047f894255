"""Tenants and their groups of nodes."""

from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.model.cluster import ClusterSettings
from crawlfleet.model.quota import NO_LIMITS, Allowance

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
