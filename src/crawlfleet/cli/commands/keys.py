"""`keys`: the keys to the API."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from crawlfleet.cli.shell.arguments import parse_span
from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, moment, since, state, table
from crawlfleet.errors import Conflict
from crawlfleet.views.access import KeyView, NewKey

Expires = Annotated[
    str | None, typer.Option(metavar="TIME", help="Expires after so long, such as 24h or 90d.")
]
Key = Annotated[str, typer.Argument(metavar="ID|NAME", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Say who may use the API, and as what.")
    app.add_typer(group, name="keys")
    add_fleet_command(
        group,
        "list",
        list_keys,
        try_this=("crawlfleet keys list", "crawlfleet keys list --json | jq '.[].name'"),
    )
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet keys create dashboard --role viewer",
            "crawlfleet keys create shop-crawler --role operator --project shop --expires 90d",
        ),
    )
    add_fleet_command(
        group,
        "rotate",
        rotate,
        try_this=(
            "crawlfleet keys rotate shop-crawler",
            "crawlfleet keys rotate shop-crawler --grace 1h --expires 90d",
        ),
    )
    add_fleet_command(group, "revoke", revoke, try_this=["crawlfleet keys revoke shop-crawler"])


async def list_keys(desk: CommandContext) -> None:
    """List all keys, also those that are dead; never their secrets."""
    keys = await desk.fleet.keys()
    desk.output.show(keys, lambda: draw_keys(keys))


async def create(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")],
    project: Annotated[str | None, typer.Option(help="Bind it to one project.")] = None,
    expires: Expires = None,
) -> None:
    """Make a key, and print its secret: it is not shown again."""
    fields: dict[str, Any] = {} if project is None else {"project_id": project}
    if expires is not None:
        fields["expires_in_s"] = parse_span(expires, "--expires")
    _show_secret(desk, await desk.fleet.create_key(name, role, **fields))


async def rotate(
    desk: CommandContext,
    id: Key,
    grace: Annotated[
        str | None, typer.Option(metavar="TIME", help="The old secret stays good for so long.")
    ] = None,
    expires: Expires = None,
) -> None:
    """Give a key a new secret, and print that: it is not shown again."""
    fields = {} if grace is None else {"grace_s": parse_span(grace, "--grace")}
    if expires is not None:
        fields["expires_in_s"] = parse_span(expires, "--expires")
    _show_secret(desk, await desk.fleet.rotate_key(await _id(desk, id), **fields))


async def revoke(desk: CommandContext, ids: Ids) -> None:
    """Make keys worthless at once; named by their ids or their names."""

    async def order(key: str) -> KeyView:
        return await desk.fleet.revoke_key(await _id(desk, key))

    await order_each(desk, ids, order, draw_keys)


async def _id(desk: CommandContext, key: str) -> str:
    """The id of the living key with this name; what is no name is taken for an id."""
    named = [each for each in await desk.fleet.keys() if each.name == key]
    if not named:
        return key
    living = [each.id for each in named if each.status == "live"]
    if not living:
        raise Conflict(f"no living key is named {key!r}; `crawlfleet keys list` shows all")
    return living[0]


def _show_secret(desk: CommandContext, made: NewKey) -> None:
    desk.output.show(made, lambda: cell(made.secret))
    desk.output.remark(f"{made.key.id} ({made.key.name}): keep it safe, it is not shown again")


def draw_keys(keys: Sequence[KeyView]) -> Table:
    """Keys, one a line."""
    return table(
        ("id", "name", "role", "project", "status", "created", "expires", "used", "from"),
        (
            [
                cell(key.id),
                cell(key.name),
                cell(key.role),
                cell(key.project_id),
                state(key.status),
                moment(key.created_at),
                moment(key.expires_at),
                since(key.last_used_at),
                cell(key.last_used_from),
            ]
            for key in keys
        ),
        flexible=("name",),
    )
