"""Projects and clusters as the API shows them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

import msgspec

from crawlfleet.model.project import Cluster, ClusterConfiguration, ClusterSettings, Project
from crawlfleet.model.task import TaskStatus
from crawlfleet.views.fields import moment


class ProjectView(msgspec.Struct, frozen=True, kw_only=True):
    """A project, with the number of its tasks in each state."""

    id: str
    name: str
    description: str
    status: str
    """`active`, or `closed`: the project takes no new tasks."""
    tasks: dict[str, int]
    created_at: datetime
    updated_at: datetime
    version: int

    @classmethod
    def of(cls, project: Project, counts: Mapping[TaskStatus, int]) -> Self:
        return cls(
            id=project.id,
            name=project.name,
            description=project.description,
            status=str(project.status),
            tasks={str(status): count for status, count in counts.items()},
            created_at=moment(project.created_at),
            updated_at=moment(project.updated_at),
            version=project.version,
        )


class ProjectPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ProjectView]
    next_cursor: str | None


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its settings."""

    id: str
    project_id: str
    """Project that owns the cluster; clusters of the project `default` are shared by all
    projects."""
    name: str
    description: str
    status: str
    """`active`, `maintenance` (no new work on its nodes) or `inactive` (no new tasks either)."""
    configuration: ClusterSettings
    configuration_version: int
    created_at: datetime
    updated_at: datetime
    version: int

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        return cls(
            id=cluster.id,
            project_id=cluster.project_id,
            name=cluster.name,
            description=cluster.description,
            status=str(cluster.status),
            configuration=cluster.configuration,
            configuration_version=cluster.configuration_version,
            created_at=moment(cluster.created_at),
            updated_at=moment(cluster.updated_at),
            version=cluster.version,
        )


class ClusterPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ClusterView]
    next_cursor: str | None


class ConfigurationView(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a cluster's settings."""

    version: int
    settings: ClusterSettings
    created_at: datetime
    cause: str

    @classmethod
    def of(cls, kept: ClusterConfiguration) -> Self:
        return cls(
            version=kept.number,
            settings=kept.settings,
            created_at=moment(kept.created_at),
            cause=kept.cause,
        )


class ConfigurationPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ConfigurationView]
    next_cursor: str | None
