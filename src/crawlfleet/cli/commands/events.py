"""`events`: show past events of the fleet, and follow new ones."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, moment, state, table
from crawlfleet.views.events import EventView

KIND_WIDTH: Final = 18


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "events",
        events,
        try_this=(
            "crawlfleet events --follow",
            "crawlfleet events --kind task.failed --limit 100 --json",
        ),
    )


async def events(
    desk: CommandContext,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    kind: Annotated[
        str, typer.Option(help="Only events whose kind begins like this, such as `node.`.")
    ] = "",
    subject: Annotated[
        str | None, typer.Option(help="Only events about the task or node with this id.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Only events with a higher number, oldest first.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 50,
) -> None:
    """List the last events of the fleet (--follow --json: one document a line)."""
    if follow:
        await _follow(desk, after, kind, subject)
        return
    if after is None:
        found = await desk.fleet.newest_events(limit, kind=kind, subject=subject)
    else:
        pages = desk.fleet.events_after(after, limit=limit, kind=kind, subject=subject)
        found = [event async for event in pages]
    desk.output.show(found, lambda: draw_events(found))


async def _follow(desk: CommandContext, after: int | None, kind: str, subject: str | None) -> None:
    async for event in desk.fleet.stream_events(after, kind=kind, subject=subject):
        desk.output.line(event, _line(event))


def draw_events(happened: Sequence[EventView], *, subjects: bool = True) -> Table:
    """Events, one a line."""
    columns = ["at", "event", *(["subject"] if subjects else []), "from", "to", "cause"]
    return table(
        columns,
        (
            [
                moment(event.at),
                cell(event.kind),
                *([cell(event.subject)] if subjects else []),
                state(event.from_state or ""),
                state(event.to_state or ""),
                cell(event.cause),
            ]
            for event in happened
        ),
    )


def _line(event: EventView) -> Text:
    style = state(event.to_state or "").style
    kind = Text(event.kind.ljust(KIND_WIDTH), style=style)
    return Text("  ").join([moment(event.at), kind, cell(event.subject), cell(event.cause)])
