"""`hosts`: the hosts that the fleet visits, with their limits, users, queues and pauses."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, table
from crawlfleet.model.wire.politeness import KeyUse


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "hosts",
        hosts,
        try_this=("crawlfleet hosts", "crawlfleet hosts shop.example --json"),
    )


async def hosts(
    desk: CommandContext,
    containing: Annotated[
        str, typer.Argument(help="Only hosts, domains and addresses with this text in them.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """Show who visits which hosts, domains and addresses, and what they wait for."""
    found = await desk.fleet.hosts(containing, limit=limit)
    desk.output.show(found, lambda: draw_hosts(found.items))


def draw_hosts(uses: Sequence[KeyUse]) -> Table:
    """Hosts, one a line."""
    return table(
        ("host", "delay", "at once", "used by", "waiting", "left alone for", "why"),
        (
            [
                cell(use.key),
                cell(f"{use.delay_s:g} s"),
                cell(use.concurrency),
                cell(", ".join(use.used_by)),
                cell(", ".join(use.waiting)),
                cell(f"{use.paused_for_s:.0f} s" if use.paused_for_s else ""),
                cell(use.pause),
            ]
            for use in uses
        ),
        flexible=("used by", "waiting", "why"),
    )
