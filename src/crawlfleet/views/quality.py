"""What was measured of tasks, as it is asked for and shown."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.quality import Check


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody says about the items of a task that are not as expected."""

    reason: Annotated[str, Meta(max_length=500)] = ""
    """For whoever looks later."""


class FieldFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A field over all items."""

    present: int
    """Items that have the field, and not as `null`."""
    filled: int
    """Items that have a value in it."""
    kinds: dict[str, int]
    """How many values are what: `text`, `number`, `flag`, `list`, `object`."""
    distinct: int
    """Different values; estimated from 128 on."""
    low: float | None
    """The lowest of the values that are numbers."""
    high: float | None
    mean: float | None
    fitting: int | None
    """Values that are as expected, one by one; `null` when nothing is expected of them."""


class MeasuredRunView(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a task when it ended, and what that came to."""

    id: str
    task_id: str
    project_id: str
    series: str
    """What it is compared with; `-` for tasks that are compared with nothing."""
    at: datetime
    verdict: str
    """`ok`, `drifted`, `failed` or `unmeasured`."""
    summary: str
    """What is not as expected, in words."""
    on_drift: str
    """`mark`, `hold` or `fail`."""
    decision: str
    """`none`, `held`, `accepted` or `rejected`."""
    decided_by: str
    decided_at: datetime | None
    reason: str
    """What they said."""
    items: int | None
    pages: int | None
    errors: float | None
    """The share of what was asked for that failed."""
    fields: dict[str, FieldFigures]
    checks: list[Check]
    """Each expectation with what was measured and between which values that should be."""
    run_id: str
    """The workflow's run and step that the task belongs to; empty when there is none."""
    step: str
    version: int


class MeasuredRunPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[MeasuredRunView]
    next_cursor: str | None


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that are compared with each other."""

    series: str
    project_id: str
    newest: MeasuredRunView


class SeriesPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SeriesView]
    next_cursor: str | None
