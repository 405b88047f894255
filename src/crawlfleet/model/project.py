"""Tenants and their groups of nodes."""

from enum import StrEnum
from typing import Any, Final

import msgspec

DEFAULT_PROJECT: Final = "default"
DEFAULT_CLUSTER: Final = "default"


class ClusterStatus(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    MAINTENANCE = "maintenance"


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant: owns clusters and tasks."""

    id: str
    name: str
    created_at: float
    updated_at: float
    version: int = 1


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A named group of nodes with its own configuration, owned by a project."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    description: str = ""
    configuration: dict[str, Any] = {}
    status: ClusterStatus = ClusterStatus.ACTIVE
    version: int = 1
