"""What a project may have at once, and how much of the fleet is its due.

A limit that is not set does not limit. What counts against a limit is what the project's live
leases hold, for `waiting` the tasks that wait for a node or for their time, for `pages_per_day`
what executions told of since midnight (UTC), and for `storage_mb` what the master keeps.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=10**12)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Weight = Annotated[float, Meta(ge=0.01, le=10_000)]


class Quota(StrEnum):
    """What can be limited, as people name it."""

    WAITING = "waiting"
    RUNNING = "running"
    CPU_CORES = "cpu_cores"
    MEMORY_MB = "memory_mb"
    PAGES_PER_DAY = "pages_per_day"
    STORAGE_MB = "storage_mb"


class Over(StrEnum):
    """What becomes of a task that is more than its project may have now."""

    QUEUE = "queue"
    """It is accepted, and waits until there is room."""
    REJECT = "reject"
    """It is refused when it is submitted."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The quotas of a project and its share of the fleet; as much as there is where not set."""

    over: Over = Over.QUEUE
    waiting: Count | None = None
    """Tasks that wait; beyond it a new one is refused in either mode."""
    running: Count | None = None
    """Executions that hold a node's resources."""
    cpu_cores: Amount | None = None
    """Reserved for all of them together."""
    memory_mb: Amount | None = None
    """Reserved for all of them together."""
    pages_per_day: Count | None = None
    """Fetched by its tasks from midnight to midnight (UTC); what runs then goes on to its end."""
    storage_mb: Amount | None = None
    """Output of its crawls and bundles, as the master keeps them."""
    weight: Weight = 1.0
    """How much of the fleet is its due beside others that also have work: twice the weight is twice
    as much."""
    nodes: dict[str, str] = {}
    """Nodes that have all of these labels are for this project alone."""

    def limit(self, quota: Quota) -> float | None:
        """How much of that there may be; `None` for any amount."""
        limit: float | None = getattr(self, quota.value)
        return limit


NO_LIMITS: Final = Allowance()
