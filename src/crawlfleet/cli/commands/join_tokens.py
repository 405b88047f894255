"""`join-tokens`: how new nodes are let in."""

from collections.abc import Sequence
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from crawlfleet.cli.shell.arguments import parse_span
from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, moment, since, state, table
from crawlfleet.views.access import JoinTokenView


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Let new nodes in.")
    app.add_typer(group, name="join-tokens")
    add_fleet_command(group, "list", list_tokens, try_this=["crawlfleet join-tokens list"])
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet join-tokens create --uses 5 --expires 24h",
            "crawlfleet join-tokens create --name rack-7 --cluster europe --json",
        ),
    )
    add_fleet_command(group, "revoke", revoke, try_this=["crawlfleet join-tokens revoke join-01j…"])


async def list_tokens(desk: CommandContext) -> None:
    """List all join tokens, also those that are dead; never their secrets."""
    tokens = await desk.fleet.join_tokens()
    desk.output.show(tokens, lambda: draw_tokens(tokens))


async def create(
    desk: CommandContext,
    uses: Annotated[int, typer.Option(min=1, help="How many nodes may join with it.")] = 1,
    expires: Annotated[str, typer.Option(metavar="TIME", help="Expires after so long.")] = "24h",
    name: Annotated[str | None, typer.Option(help="For people to know it by.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Where its nodes belong.")] = None,
) -> None:
    """Make a join token, and print the line that starts a worker with it."""
    fields: dict[str, Any] = {"uses": uses, "expires_in_s": parse_span(expires, "--expires")}
    fields |= {} if name is None else {"name": name}
    fields |= {} if cluster is None else {"cluster_id": cluster}
    made = await desk.fleet.create_join_token(**fields)
    line = f"crawlfleet worker --master {quote(desk.fleet.url)} --join {made.join or made.secret}"
    desk.output.show(made, lambda: cell(line))
    desk.output.remark(
        f"{made.join_token.id}: for {uses} new node{'s' if uses > 1 else ''} within {expires}; "
        "it is not shown again"
    )


async def revoke(desk: CommandContext, ids: Ids) -> None:
    """Let no more nodes join with these tokens; those that have joined stay."""
    await order_each(desk, ids, desk.fleet.revoke_join_token, draw_tokens)


def draw_tokens(tokens: Sequence[JoinTokenView]) -> Table:
    """Join tokens, one a line."""
    return table(
        ("id", "name", "cluster", "status", "uses", "expires", "used", "from"),
        (
            [
                cell(token.id),
                cell(token.name),
                cell(token.cluster_id),
                state(token.status),
                cell(None if token.max_uses is None else f"{token.uses}/{token.max_uses}"),
                moment(token.expires_at),
                since(token.last_used_at),
                cell(token.last_used_from),
            ]
            for token in tokens
        ),
        flexible=("name",),
    )
