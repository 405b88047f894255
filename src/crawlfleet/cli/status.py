"""`status`: the fleet in a few numbers."""

from collections.abc import Sequence

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crawlfleet.cli.command import Desk, add_fleet_command
from crawlfleet.cli.nodes import draw_nodes
from crawlfleet.cli.output import cell, facts, heading, state
from crawlfleet.model.views import FleetStatus, NodeView


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "status",
        status,
        try_this=("crawlfleet status", "crawlfleet status --json | jq .totals.tasks"),
    )


async def status(desk: Desk) -> None:
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


def _counts(counts: dict[str, int]) -> Text:
    shown = [Text.assemble(f"{count} ", state(name)) for name, count in counts.items() if count]
    return Text(", ").join(shown) if shown else cell("none")
