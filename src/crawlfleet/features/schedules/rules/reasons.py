"""Why a schedule does not run, or did not the last time: in words, with a remedy."""

from collections.abc import Sequence
from datetime import UTC, datetime

from crawlfleet.features.schedules.model import Firing, Outcome, Schedule, ScheduleStatus
from crawlfleet.features.schedules.views import ScheduleReason


def reasons(
    schedule: Schedule, *, next_at: float | None, running: Sequence[str], now: float
) -> list[ScheduleReason]:
    """Return the reasons why a schedule does not run, current ones first; none when all is well."""
    found: list[ScheduleReason] = []
    rule = schedule.rule
    if schedule.status is ScheduleStatus.PAUSED:
        found.append(
            _reason(
                "paused",
                f"it is paused ({schedule.cause})",
                f"let it go on: crawlfleet schedules resume {schedule.name}",
            )
        )
    if next_at is None:
        ended = "" if rule.end_at is None else f": it ends at {shown(rule.end_at)}"
        found.append(
            _reason("over", f"nothing is due any more{ended}", "let it end later, or remove it")
        )
    elif rule.start_at is not None and now < rule.start_at:
        found.append(
            _reason(
                "not_begun",
                f"it begins at {shown(rule.start_at)}",
                "wait, or let it begin earlier",
                start_at=rule.start_at,
            )
        )
    if schedule.waiting is not None:
        found.append(
            _reason(
                "waiting",
                f"what was due at {shown(schedule.waiting.due_at)} waits for the end of "
                f"{', '.join(running) or 'a task'}",
                "wait for it, cancel it, or raise max_instances",
                due_at=schedule.waiting.due_at,
            )
        )
    elif len(running) >= rule.max_instances:
        found.append(
            _reason(
                "no_room",
                f"max_instances is {rule.max_instances}, and {', '.join(running[:3])} is at work; "
                f"until then: {rule.overlap} what is due",
                "wait for it, cancel it, or raise max_instances",
                max_instances=float(rule.max_instances),
            )
        )
    if schedule.last is not None:
        found += _of_last(schedule.last)
    return found


def _of_last(last: Firing) -> list[ScheduleReason]:
    due = shown(last.due_at)
    many = f" (and {last.count - 1} before it)" if last.count > 1 else ""
    match last.outcome:
        case Outcome.MISSED:
            remedy = "allow a longer misfire_grace_s, or make up for it: schedules backfill"
            return [
                _reason("missed", f"what was due at {due}{many} was missed: {last.reason}", remedy)
            ]
        case Outcome.REFUSED:
            remedy = "mend the cause, then make up for it: schedules run, or schedules backfill"
            return [_reason("refused", f"what was due at {due} was refused: {last.reason}", remedy)]
        case Outcome.SKIPPED:
            remedy = "raise max_instances, let one wait (overlap: queue), or give it more time"
            return [
                _reason(
                    "skipped", f"what was due at {due}{many} was skipped: {last.reason}", remedy
                )
            ]
        case _:
            return []


def summary(schedule: Schedule, found: Sequence[ScheduleReason], next_at: float | None) -> str:
    """Return one sentence about the schedule for people."""
    if schedule.status is ScheduleStatus.ACTIVE and next_at is not None:
        come = f"{schedule.name} is due next at {shown(next_at)}"
    else:
        come = f"{schedule.name} is not due"
    return f"{come}; {found[0].message}" if found else come


def shown(instant: float) -> str:
    """Return an instant in UTC as text for people."""
    at = datetime.fromtimestamp(instant, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _reason(code: str, message: str, remedy: str, **values: float) -> ScheduleReason:
    return ScheduleReason(code=code, message=message, remedy=remedy, values=dict(values))  # type: ignore[arg-type]
