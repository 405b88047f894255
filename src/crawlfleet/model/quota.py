"""Quotas of a project, and its weight in sharing the fleet.

A limit that is not set does not limit. Live leases of the project count against a limit; for
`waiting`, the tasks that wait for a node or for their time; for `pages_per_day`, the pages that
executions reported since midnight (UTC); for `storage_mb`, the data that the master stores.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=10**12)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Weight = Annotated[float, Meta(ge=0.01, le=10_000)]


class Quota(StrEnum):
    """A quota, under the name that users see."""

    WAITING = "waiting"
    RUNNING = "running"
    CPU_CORES = "cpu_cores"
    MEMORY_MB = "memory_mb"
    PAGES_PER_DAY = "pages_per_day"
    STORAGE_MB = "storage_mb"


class Over(StrEnum):
    """Treatment of tasks beyond a project's quotas."""

    QUEUE = "queue"
    """The task is accepted and waits until there is room."""
    REJECT = "reject"
    """The task is refused when it is submitted."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The quotas of a project and its share of the fleet; a quota that is not set does not
    limit."""

    over: Over = Over.QUEUE
    waiting: Count | None = None
    """Maximum number of waiting tasks; a further one is refused in either mode."""
    running: Count | None = None
    """Maximum number of executions that hold a node's resources."""
    cpu_cores: Amount | None = None
    """Maximum CPU cores that are reserved for all executions together."""
    memory_mb: Amount | None = None
    """Maximum memory that is reserved for all executions together."""
    pages_per_day: Count | None = None
    """Maximum number of pages fetched from midnight to midnight (UTC); running executions continue
    beyond it."""
    storage_mb: Amount | None = None
    """Maximum size of stored output and bundles."""
    weight: Weight = 1.0
    """Weight of the project's share of the fleet among projects that have work: twice the weight,
    twice the share."""
    nodes: dict[str, str] = {}
    """Labels of nodes that are reserved for this project (all must match)."""

    def limit(self, quota: Quota) -> float | None:
        """Return the limit of a quota; `None` for no limit."""
        limit: float | None = getattr(self, quota.value)
        return limit


NO_LIMITS: Final = Allowance()
