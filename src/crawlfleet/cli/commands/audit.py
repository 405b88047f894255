"""`audit`: the log of changes, with the actor of each."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from crawlfleet.cli.shell.arguments import parse_instant
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, moment, table
from crawlfleet.views.access import AuditView


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "audit",
        audit,
        try_this=(
            "crawlfleet audit --since 24h",
            "crawlfleet audit --actor shop-crawler --action cancel_tasks --json",
        ),
    )


async def audit(
    desk: CommandContext,
    actor: Annotated[
        str | None, typer.Option(help="Only what was done with the key of this name or id.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Only requests of this route, such as `revoke_key`.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only what was done to the thing with this id.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this instant, or not longer ago than `24h`."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Before this instant, or longer ago.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List who changed what, newest first."""
    given = {
        "actor": actor,
        "action": action,
        "subject": subject,
        "since": _instant(since, "--since"),
        "until": _instant(until, "--until"),
    }
    filters = {name: value for name, value in given.items() if value is not None}
    entries = [entry async for entry in desk.fleet.audit(limit, **filters)]
    desk.output.show(entries, lambda: draw_entries(entries))


def _instant(text: str | None, flag: str) -> str | None:
    """An instant in ISO 8601, or a time ago; without a zone it is local."""
    return None if text is None else parse_instant(text, flag).isoformat()


def draw_entries(entries: Sequence[AuditView]) -> Table:
    """Entries, one a line."""
    return table(
        ("at", "actor", "role", "from", "action", "count", "subjects"),
        (
            [
                moment(entry.at),
                cell(entry.actor),
                cell(entry.role),
                cell(entry.address),
                cell(entry.action),
                cell(entry.count),
                cell(", ".join(entry.subjects)),
            ]
            for entry in entries
        ),
        flexible=("actor",),
    )
