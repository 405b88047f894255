"""`breakers`: sites that are taken for down, and tasks that wait for them."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, moment, since, state, table
from crawlfleet.views.breakers import BreakerView


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="See which sites are taken for down, and let tasks go on."
    )
    app.add_typer(group, name="breakers")
    add_fleet_command(
        group,
        "list",
        list_breakers,
        try_this=("crawlfleet breakers list", "crawlfleet breakers list --all --json"),
    )
    add_fleet_command(
        group,
        "close",
        close,
        try_this=(
            "crawlfleet breakers close shop.example",
            "crawlfleet breakers close shop.example --project shop",
        ),
    )


async def list_breakers(
    desk: CommandContext,
    all: Annotated[
        bool, typer.Option("--all", help="Also those whose failures are only counted.")
    ] = False,
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Only those of this project.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List the sites that are taken for down, and how many tasks wait for each."""
    found = await desk.fleet.breakers(all=all, project_id=project, limit=limit)
    desk.output.show(found, lambda: draw_breakers(found.items))


async def close(
    desk: CommandContext,
    targets: Annotated[list[str], typer.Argument(metavar="DOMAIN...", show_default=False)],
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Only for tasks of this project.")
    ] = None,
) -> None:
    """Let all tasks for sites go on, and forget their failures."""
    order = partial(desk.fleet.close_breaker, project_id=project)
    await order_each(desk, targets, order, draw_breakers)


def draw_breakers(breakers: Sequence[BreakerView]) -> Table:
    """Breakers, one a line."""
    return table(
        ("domain", "project", "state", "failures", "down for", "waiting", "next try", "error"),
        (
            [
                cell(each.target),
                cell(each.project_id),
                state(each.state),
                cell(each.failures),
                since(each.opened_at) if each.opened_at else cell(None),
                cell(each.waiting),
                moment(each.retry_at) if each.retry_at else cell(None),
                cell(each.error),
            ]
            for each in breakers
        ),
        flexible=("error",),
    )
