"""Schedules from the model to what the API shows."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from crawlfleet.features.schedules.model import Firing, Schedule, WorkflowCall
from crawlfleet.features.schedules.views import (
    DueView,
    FiringView,
    ScheduledWorkflowView,
    ScheduleExplanation,
    ScheduleReason,
    ScheduleView,
)
from crawlfleet.model.task import JSON_NULL
from crawlfleet.views.presenting import instant, moment

OVER = "over"


def present_schedule(
    schedule: Schedule, next_at: float | None, running: Sequence[str]
) -> ScheduleView:
    rule = schedule.rule
    call = schedule.workflow
    is_over = schedule.is_active and next_at is None
    return ScheduleView(
        id=schedule.id,
        name=schedule.name,
        project_id=schedule.project_id,
        description=schedule.description,
        status=OVER if is_over else str(schedule.status),
        cron=rule.cron,
        every_s=rule.every_s,
        time_zone=rule.time_zone,
        start_at=instant(rule.start_at),
        end_at=instant(rule.end_at),
        coalesce=rule.coalesce,
        misfire_grace_s=rule.misfire_grace_s,
        max_instances=rule.max_instances,
        overlap=str(rule.overlap),
        jitter_s=rule.jitter_s,
        task=schedule.task if call is None else JSON_NULL,
        workflow=None if call is None else _present_call(call),
        next_at=instant(next_at),
        running=[*running],
        waiting_since=instant(schedule.waiting.due_at) if schedule.waiting else None,
        last=present_firing(schedule.last) if schedule.last else None,
        edition=schedule.edition,
        created_at=moment(schedule.created_at),
        updated_at=moment(schedule.updated_at),
        version=schedule.version,
    )


def _present_call(call: WorkflowCall) -> ScheduledWorkflowView:
    return ScheduledWorkflowView(
        id=call.id, name=call.name, version=call.number, parameters=call.parameters
    )


def present_firing(firing: Firing) -> FiringView:
    return FiringView(
        id=firing.id,
        due_at=moment(firing.due_at),
        at=moment(firing.at),
        outcome=str(firing.outcome),
        origin=str(firing.origin),
        task_id=firing.task_id,
        run_id=firing.run_id,
        reason=firing.reason,
        count=firing.count,
        first_due_at=instant(firing.first_due_at),
        edition=firing.edition,
    )


def present_due(due: float, starts_at: float, zone: tzinfo) -> DueView:
    return DueView(
        due_at=moment(due),
        local=datetime.fromtimestamp(due, zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"),
        starts_at=moment(starts_at),
    )


def present_explanation(
    schedule: Schedule, summary: str, reasons: list[ScheduleReason], next_at: float | None
) -> ScheduleExplanation:
    return ScheduleExplanation(
        schedule_id=schedule.id, summary=summary, next_at=instant(next_at), reasons=reasons
    )
