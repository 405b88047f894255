"""`secrets`: values that the code of tasks receives and that cannot be read back."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, since, table
from crawlfleet.features.secrets.views import SecretView
from crawlfleet.model.project import DEFAULT_PROJECT

Project = Annotated[str, typer.Option(help="The project whose tasks may declare it.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Keep passwords and keys that code of a project needs."
    )
    app.add_typer(group, name="secrets")
    add_fleet_command(
        group,
        "set",
        set_secret,
        try_this=(
            "crawlfleet secrets set SHOP_PASSWORD",
            "crawlfleet secrets set SHOP_KEY --project shop --file key.pem",
            "pass show shop | crawlfleet secrets set SHOP_PASSWORD",
        ),
    )
    add_fleet_command(
        group, "list", list_secrets, try_this=["crawlfleet secrets list --project shop"]
    )
    add_fleet_command(group, "delete", delete, try_this=["crawlfleet secrets delete SHOP_PASSWORD"])


async def set_secret(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Read the value from a file, as it is.")
    ] = None,
    project: Project = DEFAULT_PROJECT,
) -> None:
    """Set a secret: asks for its value, or reads it from a pipe or a --file.

    The value is never an argument, since all users of a machine can list those. Tasks name it
    (`crawlfleet submit --secret NAME`), and their code finds it in a variable of that name.
    """
    secret = await desk.fleet.set_secret(name, _value(name, file), project)
    desk.output.show(secret, lambda: draw([secret]))


async def list_secrets(desk: CommandContext, project: Project = DEFAULT_PROJECT) -> None:
    """List the secrets of a project, in order of name; never their values."""
    found = [secret async for secret in desk.fleet.secrets(project)]
    desk.output.show(found, lambda: draw(found))


async def delete(desk: CommandContext, names: Names, project: Project = DEFAULT_PROJECT) -> None:
    """Forget secrets: what declares them and begins afterwards fails."""

    async def order(name: str) -> SecretView | None:
        return await desk.fleet.remove_secret(name, project)

    await order_each(desk, names, order, draw)


def draw(found: Sequence[SecretView]) -> Table:
    """Secrets, one a line."""
    return table(
        ("name", "project", "changed", "cause"),
        (
            [cell(each.name), cell(each.project_id), since(each.updated_at), cell(each.cause)]
            for each in found
        ),
        flexible=("name", "cause"),
    )


def _value(name: str, file: Path | None) -> str:
    try:
        if file is not None:
            return file.expanduser().read_text()
        if sys.stdin.isatty():
            value: str = typer.prompt(f"Value of {name}", hide_input=True)
            return value
        return sys.stdin.read().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"the value cannot be read: {error}", param_hint="--file" if file else "stdin"
        ) from None
