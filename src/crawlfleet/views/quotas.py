"""Quotas, fair shares and usage of projects, as they are set and shown."""

from datetime import datetime
from enum import StrEnum

import msgspec


class QuotaLine(msgspec.Struct, frozen=True, kw_only=True):
    """One quota of a project, and how much of it is used."""

    name: str
    """`waiting`, `running`, `cpu_cores`, `memory_mb`, `pages_per_day` or `storage_mb`."""
    use: float
    limit: float | None
    """`null` when there is none."""
    left: float | None
    """`null` when there is no limit; never below zero."""


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a project and its share of the fleet, and what it has of them now."""

    project_id: str
    over: str
    """`queue` or `reject`."""
    quotas: tuple[QuotaLine, ...]
    weight: float
    share: float
    """The part of the fleet that it holds: of the resource of which it has most."""
    due: float
    """The part that is its own by weight, beside the projects that have work now."""
    nodes: dict[str, str]
    """The labels of nodes that are kept for it."""
    version: int
    """Of the project."""


class QuotaPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[QuotaView]
    next_cursor: str | None


class QuotaHold(msgspec.Struct, frozen=True, kw_only=True):
    """A quota that holds a task back."""

    quota: str
    use: float
    needs: float
    """What the task would add, as far as that is known."""
    limit: float
    until: datetime | None = None
    """When it is over by itself: of `pages_per_day`, the next midnight (UTC)."""


class UsageStep(StrEnum):
    """How finely what was used is told."""

    HOUR = "hour"
    DAY = "day"
    """From midnight to midnight, UTC."""


class UsageAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in a stretch of time."""

    submitted: int
    """Tasks; a shard of a split task is one, too, here and below."""
    completed: int
    failed: int
    """Also those that ran out of time."""
    cancelled: int
    attempts: int
    """Executions that ended."""
    cpu_s: float
    """CPU time, as far as executors tell."""
    run_s: float
    """From the beginning to the end of executions."""
    pages: int
    """Fetched, told by executions when they end."""
    bytes: int
    """Fetched, as far as executors tell."""


class UsageItem(UsageAmounts, frozen=True, kw_only=True):
    """What a project used in a day or an hour."""

    project_id: str
    at: datetime
    """When it begins."""
    peak_waiting: int
    """The most tasks that waited at once, as far as the master looked."""
    peak_running: int
    """The most executions that held a node's resources at once, likewise."""
    storage_bytes: int | None
    """Output and bundles that were kept at its end; `null` while that was not measured."""


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, step by step."""

    step: UsageStep
    since: datetime
    """When the first step begins."""
    until: datetime
    items: list[UsageItem]
    """In order of time, then of projects; steps in which a project used nothing are left out."""
    total: UsageAmounts
    """Of all items together."""
