"""How the fleet does, in numbers."""

from datetime import datetime
from typing import Any

import msgspec


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to tasks in a stretch of time that ends now."""

    seconds: float
    """How long it is; shorter than its name says while the master has not run for longer."""
    submitted: int
    assigned: int
    """Attempts that were given to a node."""
    completed: int
    failed: int
    timeout: int
    cancelled: int
    completed_per_s: float


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of `step_s` seconds that ends at `at`."""

    at: datetime
    tasks: dict[str, int]
    """How many there were in each state."""
    finished: int
    """Tasks that completed."""
    failed: int
    """Tasks that failed or ran out of time."""
    errors: dict[str, int]
    """Attempts that did not succeed, by the class of their error."""
    pages: int
    """Pages that crawls said they have read."""
    queue_age_s: float | None
    """How long the task had waited that was ready for the longest time; `null` without any."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """How the fleet did over time, as this master saw it."""

    step_s: float
    points: list[SeriesPoint]


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """How the fleet does now, and did in the last hour at most."""

    at: datetime
    since: datetime
    """When this master started to count: nothing before is in `throughput` and `failures`."""
    tasks: dict[str, int]
    """How many there are in each state."""
    ready: int
    """Tasks that wait for a node."""
    delayed: int
    """Tasks that wait for their time, such as for a retry."""
    running: int
    """Executions that hold resources of a node."""
    oldest_ready_s: float | None
    """The age of the task that has been ready for the longest time; `null` when none is."""
    throughput: dict[str, Throughput]
    """For the last `minute`, `five_minutes` and `hour`."""
    failures: dict[str, int]
    """Attempts that did not succeed in the last hour, by the class of their error."""
    nodes: dict[str, int]
    """How many there are in each state."""
    health: dict[str, int]
    """How many nodes are how healthy."""


class TaskTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A task type, and how its tasks are written."""

    name: str
    summary: str
    parameters: dict[str, Any] | None
    """A JSON schema, whole in itself; `null` where the master does not know it."""
    nodes: int
    """How many nodes that are online have an executor for it."""


class TaskTypePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TaskTypeView]
    next_cursor: str | None
