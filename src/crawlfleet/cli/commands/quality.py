"""`quality`: the measured quality of tasks' items, and the verdicts on it."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, heading, moment, state, table
from crawlfleet.views.quality import FieldFigures, MeasuredRunView, SeriesView

TaskId = Annotated[str, typer.Argument(metavar="TASK", show_default=False)]
Reason = Annotated[str, typer.Option(help="For whoever looks later.")]
Project = Annotated[str | None, typer.Option("--project", help="Of this project.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Look at what was measured of items, and accept or reject it."
    )
    app.add_typer(group, name="quality")
    add_fleet_command(
        group,
        "list",
        list_series,
        try_this=["crawlfleet quality list", "crawlfleet quality list --project shop --json"],
    )
    add_fleet_command(
        group,
        "show",
        show,
        try_this=[
            "crawlfleet quality show schedule.shop-nightly",
            "crawlfleet quality show workflow.prices.crawl --limit 5 --json",
        ],
    )
    add_fleet_command(group, "task", task, try_this=["crawlfleet quality task task-01j…"])
    add_fleet_command(
        group,
        "accept",
        accept,
        try_this=['crawlfleet quality accept task-01j… --reason "the shop has shrunk"'],
    )
    add_fleet_command(
        group,
        "reject",
        reject,
        try_this=['crawlfleet quality reject task-01j… --reason "the prices are missing"'],
    )


async def list_series(
    desk: CommandContext,
    project: Project = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
) -> None:
    """List series of measured tasks, each with its newest run."""
    found = [each async for each in desk.fleet.quality(project_id=project, limit=limit)]
    desk.output.show(found, lambda: draw_series(found))


async def show(
    desk: CommandContext,
    series: Annotated[str, typer.Argument(metavar="SERIES", show_default=False)],
    project: Project = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
) -> None:
    """Show the runs of a series, newest first, and the newest of them field by field."""
    runs = desk.fleet.measured_runs(series, project_id=project, limit=limit)
    found = [each async for each in runs]
    desk.output.show(found, lambda: draw_runs(found))
    if not found:
        desk.output.remark("there is no such series; `crawlfleet quality list` shows all")


async def task(desk: CommandContext, id: TaskId) -> None:
    """Show what was measured of a task, check by check."""
    found = await desk.fleet.task_quality(id)
    desk.output.show(found, lambda: Group(*map(draw_run, found)))
    if not found:
        desk.output.remark("nothing was measured: it has not ended, or has no `expectations`")


async def accept(desk: CommandContext, id: TaskId, reason: Reason = "") -> None:
    """Accept items that are not as expected: what waits goes on, and they are usual from now on."""
    run = await desk.fleet.accept(id, reason=reason)
    desk.output.show(run, lambda: draw_run(run))


async def reject(desk: CommandContext, id: TaskId, reason: Reason = "") -> None:
    """Reject items that are not as expected: a step that waits for this fails."""
    run = await desk.fleet.reject(id, reason=reason)
    desk.output.show(run, lambda: draw_run(run))


def draw_series(found: Sequence[SeriesView]) -> Table:
    """Series, one a line."""
    return table(
        ("series", "project", "verdict", "decision", "items", "at", "what"),
        (
            [
                cell(each.series),
                cell(each.project_id),
                state(each.newest.verdict),
                _decision(each.newest),
                cell(each.newest.items),
                moment(each.newest.at),
                cell(each.newest.summary),
            ]
            for each in found
        ),
        flexible=("what",),
    )


def draw_runs(runs: Sequence[MeasuredRunView]) -> RenderableType:
    """Runs, one a line, and the fields of the newest."""
    lines = table(
        ("at", "verdict", "decision", "items", "pages", "errors", "task", "what"),
        (
            [
                moment(each.at),
                state(each.verdict),
                _decision(each),
                cell(each.items),
                cell(each.pages),
                cell(None if each.errors is None else f"{each.errors:.1%}"),
                cell(each.task_id),
                cell(each.summary),
            ]
            for each in runs
        ),
        flexible=("what",),
    )
    if not runs or not runs[0].fields:
        return lines
    return Group(lines, heading("Fields of the newest"), draw_fields(runs[0]))


def draw_run(run: MeasuredRunView) -> RenderableType:
    """All that is known about one."""
    by = f"{run.decision} by {run.decided_by}" if run.decided_by else run.decision
    parts: list[RenderableType] = [
        facts(
            [
                ("task", cell(run.task_id)),
                ("series", cell(run.series)),
                ("verdict", state(run.verdict)),
                ("what", cell(run.summary, lines=True)),
                ("on drift", cell(run.on_drift)),
                ("decision", cell(by) if run.decision != "none" else None),
                ("reason", cell(run.reason) if run.reason else None),
                ("items", cell(run.items)),
                ("pages", cell(run.pages)),
                ("errors", cell(None if run.errors is None else f"{run.errors:.1%}")),
                ("measured", moment(run.at)),
            ]
        ),
        heading("Checks"),
        table(
            ("check", "outcome", "what"),
            ([cell(each.name), state(str(each.outcome)), cell(each.words)] for each in run.checks),
            flexible=("what",),
        ),
    ]
    if run.fields:
        parts += [heading("Fields"), draw_fields(run)]
    return Group(*parts)


def draw_fields(run: MeasuredRunView) -> Table:
    """Fields, one a line."""
    return table(
        ("field", "filled", "kinds", "different", "low", "mean", "high"),
        (
            [
                cell(name),
                cell(f"{each.filled / run.items:.1%}" if run.items else each.filled),
                cell(", ".join(f"{kind} {count}" for kind, count in each.kinds.items())),
                cell(each.distinct),
                *(cell(None if one is None else f"{one:g}") for one in _range(each)),
            ]
            for name, each in run.fields.items()
        ),
        flexible=("field",),
    )


def _range(field: FieldFigures) -> tuple[float | None, float | None, float | None]:
    return field.low, field.mean, field.high


def _decision(run: MeasuredRunView) -> RenderableType:
    return cell(None) if run.decision == "none" else state(run.decision)
