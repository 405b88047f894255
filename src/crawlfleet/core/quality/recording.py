"""Records of quality: rows and events that are written when a task with expectations ends, and when
a person decides about it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.quality import (
    Check,
    CheckOutcome,
    Decision,
    Judgement,
    MeasuredRun,
    OnDrift,
    Profile,
    Verdict,
    series_key,
    series_name,
)
from crawlfleet.model.task import ErrorClass, Task, TaskError, TaskStatus

NO_SERIES: Final = "-"
"""Series of all tasks that are not compared with others."""
LONGEST_WORDS: Final = 1_500
NOT_AS_EXPECTED: Final = "its items are not as expected"


def failed_by_items(task: Task) -> bool:
    """Return whether a task has failed because of its items, not because of an error."""
    error = task.error
    return (
        task.status is TaskStatus.FAILED
        and task.expectations is not None
        and error is not None
        and error.message.startswith(NOT_AS_EXPECTED)
    )


class QualityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of the items of a task, for the commit that ends the task."""

    id: str
    """Id of the measured run that is stored."""
    judgement: Judgement
    profile: Profile
    on_drift: OnDrift = OnDrift.MARK
    series: str = ""

    @property
    def fails(self) -> bool:
        """True if the task fails because of its items. Items that could not be measured do not fail
        it."""
        verdict = self.judgement.verdict
        return self.on_drift is OnDrift.FAIL and verdict in (Verdict.DRIFTED, Verdict.FAILED)

    @property
    def error(self) -> TaskError:
        """Error of the task, when it fails because of its items."""
        return TaskError(
            error_class=ErrorClass.ERROR,
            message=f"{NOT_AS_EXPECTED}: {told(self.judgement)}",
        )


class QualitySummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a quality record that the task's result contains."""

    verdict: Verdict
    series: str
    on_drift: OnDrift
    measured_run: str
    checks: tuple[Check, ...]


def told(judgement: Judgement) -> str:
    """Return the unmet expectations as text that any store accepts."""
    return judgement.words[:LONGEST_WORDS].replace("\0", "\N{REPLACEMENT CHARACTER}")


def in_result(judged: QualityRecord) -> QualitySummary:
    """Return the quality record as it stands in the task's result."""
    return QualitySummary(
        verdict=judged.judgement.verdict,
        series=judged.series,
        on_drift=judged.on_drift,
        measured_run=judged.id,
        checks=judged.judgement.checks,
    )


def signed(change: Change, judged: QualityRecord, *, now: float) -> Change:
    """Return the change that ends a task, extended by its measured run and, for bad items, an
    event."""
    (task,) = change.tasks
    bad = not judged.judgement.is_good
    held = bad and judged.on_drift is OnDrift.HOLD
    step = task.step
    run = MeasuredRun(
        id=judged.id,
        series=series_key(task.project_id, judged.series or NO_SERIES),
        project_id=task.project_id,
        task_id=task.id,
        at=now,
        verdict=judged.judgement.verdict,
        decision=Decision.HELD if held else Decision.NONE,
        on_drift=judged.on_drift,
        checks=judged.judgement.checks,
        profile=judged.profile,
        run_id=step.run_id if step else "",
        step=step.step if step else "",
        index=step.index if step else 0,
    )
    events = change.events
    if bad:
        kind = "unmeasured" if run.verdict is Verdict.UNMEASURED else "drifted"
        cause = told(judged.judgement)
        events = (*events, _event(kind, run, now, cause, broken=_broken(run)))
    return msgspec.structs.replace(change, rows=(*change.rows, run), events=events)


def decided(
    run: MeasuredRun, decision: Decision, *, now: float, by: str, reason: str = ""
) -> Change | None:
    """Return the change by which a person accepts or rejects a run; `None` when the run has that
    decision already."""
    if run.decision is decision:
        return None
    moved = msgspec.structs.replace(
        run,
        decision=decision,
        decided_by=by,
        decided_at=now,
        reason=reason,
        version=run.version + 1,
    )
    cause = f"{decision} by {by}" + (f": {reason}" if reason else "")
    return Change(
        rows=(moved,), events=(_event(str(decision), moved, now, cause),), about=(run.task_id,)
    )


def undecidable(run: MeasuredRun) -> str:
    """Return why nobody can decide about a run (any more); empty when a decision is possible."""
    if run.verdict is Verdict.OK:
        return f"{run.task_id} is as expected: there is nothing to decide"
    if run.decision in (Decision.ACCEPTED, Decision.REJECTED):
        return f"{run.task_id} was {run.decision} by {run.decided_by} before"
    return ""


def _broken(run: MeasuredRun) -> list[dict[str, Any]]:
    return [_figure(each) for each in run.checks if each.outcome is not CheckOutcome.MET][:10]


def _figure(check: Check) -> dict[str, Any]:
    found: Mapping[str, Any] = {
        "name": check.name,
        "measured": check.measured,
        "min": check.min,
        "max": check.max,
    }
    return {name: value for name, value in found.items() if value is not None}


def _event(kind: str, run: MeasuredRun, now: float, cause: str, **details: Any) -> Event:
    told: dict[str, Any] = {
        "verdict": str(run.verdict),
        "series": series_name(run.series),
        "on_drift": str(run.on_drift),
        "measured_run": run.id,
        **details,
    }
    if run.run_id:
        told |= {"run_id": run.run_id, "step": run.step, "index": run.index}
    return Event(
        kind=f"task.{kind}",
        subject=run.task_id,
        at=now,
        cause=cause,
        details=told,
        project_id=run.project_id,
    )
