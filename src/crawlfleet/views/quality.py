"""Measurements of the quality of items: decisions, measured runs and series."""

from datetime import datetime
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import Check, FieldProfile, MeasuredRun, Verdict, series_name
from crawlfleet.views.fields import instant, moment


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision to accept or reject items that are not as expected."""

    reason: Annotated[str, Meta(max_length=500)] = ""
    """Reason of the decision, kept with the run."""


class FieldFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one field over all items."""

    present: int
    """Items that have the field with a value other than `null`."""
    filled: int
    """Items that have a non-empty value in the field."""
    kinds: dict[str, int]
    """Number of values of each kind: `text`, `number`, `flag`, `list`, `object`."""
    distinct: int
    """Number of different values; estimated from 128 on."""
    low: float | None
    """Lowest number among the values."""
    high: float | None
    mean: float | None
    fitting: int | None
    """Values that meet the expectations of single values; `null` when there are none."""

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
    """The measurement of a task at its end, with the verdict."""

    id: str
    task_id: str
    project_id: str
    series: str
    """Series that the run is compared within; `-` for tasks that are not compared."""
    at: datetime
    verdict: str
    """`ok`, `drifted`, `failed` or `unmeasured`."""
    summary: str
    """Broken expectations in words."""
    on_drift: str
    """`mark`, `hold` or `fail`."""
    decision: str
    """`none`, `held`, `accepted` or `rejected`."""
    decided_by: str
    decided_at: datetime | None
    reason: str
    """Reason that was given for the decision."""
    items: int | None
    pages: int | None
    errors: float | None
    """Share of requests that failed."""
    fields: dict[str, FieldFigures]
    checks: list[Check]
    """Each expectation with the measured value and its allowed range."""
    run_id: str
    """Workflow run of the task; empty when it belongs to none. `step` is the step in it."""
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
    """A series of tasks that are compared with each other."""

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
