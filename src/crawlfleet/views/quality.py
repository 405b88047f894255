"""What was measured of tasks, as it is asked for and shown."""

from datetime import datetime
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import Check, FieldProfile, MeasuredRun, Verdict, series_name
from crawlfleet.views.fields import instant, moment


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

    @classmethod
    def of(cls, field: FieldProfile) -> Self:
        return cls(
            present=field.present,
            filled=field.filled,
            kinds=field.kinds,
            distinct=field.distinct,
            low=field.low,
            high=field.high,
            mean=field.mean,
            fitting=field.fitting,
        )


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

    @classmethod
    def of(cls, run: MeasuredRun) -> Self:
        profile = run.profile
        summary = "as expected" if run.verdict is Verdict.OK else told(run.judgement)
        return cls(
            id=run.id,
            task_id=run.task_id,
            project_id=run.project_id,
            series=series_name(run.series),
            at=moment(run.at),
            verdict=str(run.verdict),
            summary=summary,
            on_drift=str(run.on_drift),
            decision=str(run.decision),
            decided_by=run.decided_by,
            decided_at=instant(run.decided_at),
            reason=run.reason,
            items=profile.items,
            pages=profile.pages,
            errors=profile.errors,
            fields={name: FieldFigures.of(each) for name, each in (profile.fields or {}).items()},
            checks=[*run.checks],
            run_id=run.run_id,
            step=run.step,
            version=run.version,
        )


class MeasuredRunPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[MeasuredRunView]
    next_cursor: str | None


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that are compared with each other."""

    series: str
    project_id: str
    newest: MeasuredRunView

    @classmethod
    def of(cls, newest: MeasuredRun) -> Self:
        return cls(
            series=series_name(newest.series),
            project_id=newest.project_id,
            newest=MeasuredRunView.of(newest),
        )


class SeriesPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SeriesView]
    next_cursor: str | None
