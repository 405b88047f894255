"""Statistics of the fleet."""

from datetime import datetime
from typing import Any

import msgspec


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Number of task events in a period that ends now."""

    seconds: float
    """Length of the period; shorter than its name while the master has not run for so long."""
    submitted: int
    assigned: int
    """Number of attempts that were assigned to a node."""
    completed: int
    failed: int
    timeout: int
    cancelled: int
    completed_per_s: float


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A period of `step_s` seconds that ends at `at`."""

    at: datetime
    tasks: dict[str, int]
    """Number of tasks in each state."""
    finished: int
    """Number of tasks that completed."""
    failed: int
    """Number of tasks that failed or timed out."""
    errors: dict[str, int]
    """Number of failed attempts, by error class."""
    pages: int
    """Number of pages that crawls reported as read."""
    queue_age_s: float | None
    """Age of the task that was ready for longest; `null` when none was ready."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet over time, as this master recorded it."""

    step_s: float
    points: list[SeriesPoint]


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet now and in the last hour at most."""

    at: datetime
    since: datetime
    """Time when this master started counting; `throughput` and `failures` have nothing before
    it."""
    tasks: dict[str, int]
    """Number of tasks in each state."""
    ready: int
    """Number of tasks that wait for a node."""
    delayed: int
    """Number of tasks that wait for their time, such as for a retry."""
    running: int
    """Number of executions that hold resources of a node."""
    oldest_ready_s: float | None
    """Age in seconds of the task that has been ready for longest; `null` when none is ready."""
    throughput: dict[str, Throughput]
    """Throughput of the last `minute`, `five_minutes` and `hour`."""
    failures: dict[str, int]
    """Number of failed attempts in the last hour, by error class."""
    nodes: dict[str, int]
    """Number of nodes in each state."""
    health: dict[str, int]
    """Number of nodes with each health."""


class TaskTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A task type and the schema of its parameters."""

    name: str
    summary: str
    parameters: dict[str, Any] | None
    """Self-contained JSON schema of the parameters; `null` where the master does not know it."""
    nodes: int
    """Number of online nodes that have an executor for it."""


class TaskTypePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TaskTypeView]
    next_cursor: str | None
