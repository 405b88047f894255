"""Quotas, fair shares and usage of projects, as they are set and shown."""

from datetime import datetime
from enum import StrEnum

import msgspec


class QuotaLine(msgspec.Struct, frozen=True, kw_only=True):
    """One quota of a project, with its current use."""

    name: str
    """`waiting`, `running`, `cpu_cores`, `memory_mb`, `pages_per_day` or `storage_mb`."""
    use: float
    limit: float | None
    """Limit; `null` when there is none."""
    left: float | None
    """Amount that is left, at least zero; `null` when there is no limit."""


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a project and its share of the fleet, with the current use."""

    project_id: str
    over: str
    """`queue` or `reject`: what happens to tasks beyond a quota."""
    quotas: tuple[QuotaLine, ...]
    weight: float
    share: float
    """Share of the fleet that the project uses now: of the resource that it uses most of."""
    due: float
    """Share of the fleet that the project is entitled to by its weight, among the projects that
    have work now."""
    nodes: dict[str, str]
    """Labels of the nodes that are reserved for the project."""
    version: int
    """Version of the project."""


class QuotaPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[QuotaView]
    next_cursor: str | None


class QuotaHold(msgspec.Struct, frozen=True, kw_only=True):
    """A quota that holds a task back."""

    quota: str
    use: float
    needs: float
    """Amount that the task would add, as far as that is known."""
    limit: float
    until: datetime | None = None
    """Time when the hold ends by itself: for `pages_per_day`, the next midnight (UTC)."""


class UsageStep(StrEnum):
    """Length of the steps of a usage report."""

    HOUR = "hour"
    DAY = "day"
    """Midnight to midnight, UTC."""


class UsageAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Usage over a period."""

    submitted: int
    """Submitted tasks; each shard of a split task counts as one, here and below."""
    completed: int
    failed: int
    """Tasks that failed, including timeouts."""
    cancelled: int
    attempts: int
    """Executions that ended."""
    cpu_s: float
    """CPU seconds, as far as executors report them."""
    run_s: float
    """Seconds between start and end, over all executions."""
    pages: int
    """Pages fetched, as reported at the end of executions."""
    bytes: int
    """Bytes fetched, as far as executors report them."""


class UsageItem(UsageAmounts, frozen=True, kw_only=True):
    """Usage of a project in a day or an hour."""

    project_id: str
    at: datetime
    """Beginning of the day or hour."""
    peak_waiting: int
    """Highest number of tasks that waited at once, as sampled by the master."""
    peak_running: int
    """Highest number of executions that held a node's resources at once, as sampled by the
    master."""
    storage_bytes: int | None
    """Size of stored output and bundles at the end of the step; `null` if it was not measured."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of projects, step by step."""

    step: UsageStep
    since: datetime
    """Beginning of the first step."""
    until: datetime
    items: list[UsageItem]
    """Items in order of time, then of project; without steps in which a project used nothing."""
    total: UsageAmounts
    """Sum of all items."""
