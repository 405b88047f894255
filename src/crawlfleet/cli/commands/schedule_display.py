"""Draws schedules, their firings and backfills."""

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.output import cell, facts, heading, moment, span, state, table, tree
from crawlfleet.features.schedules.views import (
    BackfillReply,
    DuePage,
    FiringView,
    ScheduleExplanation,
    ScheduleView,
)


def draw_schedules(schedules: Sequence[ScheduleView]) -> Table:
    """Schedules, one a line."""
    return table(
        ("id", "name", "status", "project", "when", "next", "last", "starts"),
        (
            [
                cell(each.id),
                cell(each.name),
                state(each.status),
                cell(each.project_id),
                cell(_when(each)),
                moment(each.next_at),
                state(each.last.outcome) if each.last else cell(None),
                cell(_starts(each)),
            ]
            for each in schedules
        ),
        flexible=("name",),
    )


def draw_schedule(schedule: ScheduleView) -> RenderableType:
    """Draw all facts about a schedule."""
    grace = schedule.misfire_grace_s
    known = facts(
        [
            ("id", cell(schedule.id)),
            ("name", cell(schedule.name)),
            ("status", state(schedule.status)),
            ("project", cell(schedule.project_id)),
            ("description", cell(schedule.description, lines=True)),
            ("when", cell(_when(schedule))),
            ("not before", moment(schedule.start_at) if schedule.start_at else None),
            ("until", moment(schedule.end_at) if schedule.end_at else None),
            ("put off by up to", cell(span(schedule.jitter_s)) if schedule.jitter_s else None),
            ("several late", cell("start one" if schedule.coalesce else "start one each")),
            ("grace", cell("however late" if grace is None else span(grace))),
            ("at once", cell(f"{schedule.max_instances}, others: {schedule.overlap}")),
            ("next", moment(schedule.next_at)),
            ("running", cell(", ".join(schedule.running))),
            ("waits since", moment(schedule.waiting_since) if schedule.waiting_since else None),
            ("made", moment(schedule.created_at)),
            ("version", cell(schedule.version)),
        ]
    )
    parts: list[RenderableType] = [known]
    if schedule.workflow is None:
        parts += [heading("Task"), tree(msgspec.json.decode(schedule.task))]
    else:
        parts += [heading("Workflow"), tree(msgspec.to_builtins(schedule.workflow))]
    if schedule.last is not None:
        parts += [heading("Last"), draw_firings([schedule.last])]
    return Group(*parts)


def draw_firings(firings: Sequence[FiringView]) -> Table:
    """Draw the outcomes of due instants, one a line."""
    return table(
        ("due", "outcome", "started by", "late", "task or run", "stands for", "reason"),
        (
            [
                moment(each.due_at),
                state(each.outcome),
                cell(each.origin),
                cell(span((each.at - each.due_at).total_seconds())),
                cell(each.task_id or each.run_id),
                cell(each.count),
                cell(each.reason),
            ]
            for each in firings
        ),
    )


def draw_dues(found: DuePage) -> Table:
    """Due instants to come, one a line."""
    rows = (
        [
            cell(each.local),
            moment(each.due_at),
            moment(each.starts_at) if each.starts_at != each.due_at else cell(None),
        ]
        for each in found.items
    )
    return table((found.time_zone, "here", "put off to"), rows)


def draw_backfill(reply: BackfillReply) -> RenderableType:
    """Draw the firings that a backfill started, and count those that had started before."""
    return Group(
        draw_firings(reply.items),
        cell(f"{len(reply.items)} now, {reply.already} had started something before"),
    )


def draw_explanation(found: ScheduleExplanation) -> RenderableType:
    """The answer in a sentence, then what stands in the way."""
    if not found.reasons:
        return cell(found.summary, "bold")
    rows = ([cell(each.code), cell(each.message), cell(each.remedy)] for each in found.reasons)
    why = table(("", "why", "what to do"), rows, flexible=("why",))
    return Group(cell(found.summary, "bold"), heading("Reasons"), why)


def _starts(schedule: ScheduleView) -> str:
    if schedule.workflow is not None:
        return f"workflow {schedule.workflow.name}"
    return str(msgspec.json.decode(schedule.task).get("task_type", ""))


def _when(schedule: ScheduleView) -> str:
    if schedule.cron is None:
        return f"every {span(schedule.every_s or 0.0)}"
    return f"{schedule.cron} {schedule.time_zone}"
