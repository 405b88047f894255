"""What projects have used, as it is asked for and shown."""

from datetime import datetime
from enum import StrEnum

import msgspec


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
