"""`status`, `statistics` and `attention`: the fleet in numbers, and what is wrong with it."""

from collections.abc import Sequence
from typing import Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crawlfleet.cli.commands.nodes import draw_nodes
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, heading, moment, span, state, table
from crawlfleet.model.attention import Concern
from crawlfleet.model.statistics import Statistics
from crawlfleet.views.nodes import NodeView
from crawlfleet.views.status import FleetStatus

HAPPENINGS: Final = ("submitted", "assigned", "completed", "failed", "timeout", "cancelled")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_fleet_command(
        app,
        "status",
        status,
        try_this=("crawlfleet status", "crawlfleet status --json | jq .totals.tasks"),
    )
    add_fleet_command(
        app,
        "statistics",
        statistics,
        try_this=["crawlfleet statistics --json | jq .throughput.minute.completed_per_s"],
    )
    add_fleet_command(
        app,
        "attention",
        attention,
        try_this=(
            "crawlfleet attention",
            "crawlfleet attention --json | jq -e 'all(.severity != \"high\")'",
        ),
    )


async def attention(desk: CommandContext) -> None:
    """Show what ought to be looked at, the most pressing first, and what to do about it."""
    found = await desk.fleet.attention()
    desk.output.show(found, lambda: draw_attention(found))


def draw_attention(found: Sequence[Concern]) -> RenderableType:
    """Draw the concerns of the fleet, one a line."""
    if not found:
        return cell("nothing needs attention")
    return table(
        ("", "what", "what to do", "about"),
        (
            [
                state(each.severity),
                cell(each.message, lines=True),
                cell(each.remedy, lines=True),
                cell(each.subject.id or each.subject.kind),
            ]
            for each in found
        ),
        flexible=("what", "what to do"),
    )


async def statistics(desk: CommandContext) -> None:
    """Show how the fleet does, and did in the last minute, five minutes and hour."""
    found = await desk.fleet.statistics()
    desk.output.show(found, lambda: draw_statistics(found))


async def status(desk: CommandContext) -> None:
    """Show the fleet in a few numbers, and its nodes; fails with 3 when no master answers."""
    summary = await desk.fleet.status()
    nodes = [] if desk.output.json else await desk.fleet.nodes()
    desk.output.show(summary, lambda: draw_status(summary, nodes))


def draw_status(summary: FleetStatus, nodes: Sequence[NodeView]) -> RenderableType:
    """The numbers, then the nodes."""
    totals = summary.totals
    parts: list[RenderableType] = [
        facts(
            [
                ("crawlfleet", cell(summary.version)),
                ("led by", None if summary.leader else cell(summary.led_by)),
                ("tasks", _counts(totals.tasks)),
                ("queue", cell(f"{totals.ready} ready, {totals.delayed} delayed")),
                ("running", cell(totals.running)),
                ("nodes", _counts(totals.nodes)),
            ]
        )
    ]
    if nodes:
        parts += [heading("Nodes"), draw_nodes(nodes)]
    return Group(*parts)


def draw_statistics(found: Statistics) -> RenderableType:
    """Draw the numbers, then the history."""
    oldest = found.oldest_ready_s
    rows = (
        [
            cell(name.replace("_", " ")),
            *(cell(getattr(each, field)) for field in HAPPENINGS),
            cell(f"{each.completed_per_s:g}"),
        ]
        for name, each in found.throughput.items()
    )
    return Group(
        facts(
            [
                ("counted since", moment(found.since)),
                ("tasks", _counts(found.tasks)),
                ("queue", cell(f"{found.ready} ready, {found.delayed} delayed")),
                ("oldest ready", None if oldest is None else cell(span(oldest))),
                ("running", cell(found.running)),
                ("nodes", _counts(found.nodes)),
                ("health", _counts(found.health)),
                ("failures", _counts(found.failures)),
            ]
        ),
        heading("Throughput"),
        table(("in the last", *HAPPENINGS, "completed/s"), rows),
    )


def _counts(counts: dict[str, int]) -> Text:
    shown = [Text.assemble(f"{count} ", state(name)) for name, count in counts.items() if count]
    return Text(", ").join(shown) if shown else cell("none")
