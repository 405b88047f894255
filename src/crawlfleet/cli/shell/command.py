"""Adds commands to the program: with examples in their help, and a connection to a master.

A command that talks to a master is an async function whose first argument is a `CommandContext`;
the flags `--url --key --data --json` are added here, once for all.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from crawlfleet.cli.shell import loop
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.loop import loading
from crawlfleet.cli.shell.output import CommandOutput

if TYPE_CHECKING:
    from crawlfleet.client import Client

T = TypeVar("T")
AT_ONCE = 32
"""Maximum number of concurrent requests of one command."""

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of the fleet's store, logs and keys.", file_okay=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Settings file (TOML).", dir_okay=False)
]
ApiKey = Annotated[str | None, typer.Option("--key", help="API key; also CRAWLFLEET_KEY.")]
Authorities = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        dir_okay=False,
        help="File of the authorities that the master's certificate must be of; "
        "also CRAWLFLEET_CA.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--cert",
        dir_okay=False,
        help="File of a certificate for a master that asks for one; also CRAWLFLEET_CERT.",
    ),
]
CertificateKey = Annotated[
    Path | None,
    typer.Option(
        "--cert-key",
        dir_okay=False,
        help="File of its key, if that is another one; also CRAWLFLEET_CERT_KEY.",
    ),
]


class CommandContext:
    """The context of a command: the client of its fleet, and its output."""

    def __init__(self, fleet: "Client", output: CommandOutput) -> None:
        self.fleet = fleet
        self.output = output


Act = Callable[..., Awaitable[None]]


def add_command(
    group: typer.Typer,
    name: str,
    act: Callable[..., None],
    *,
    try_this: Iterable[str],
    help: str | None = None,
) -> None:
    """Add a command that needs no master."""
    group.command(name, help=help, epilog=examples(*try_this))(act)


def add_fleet_command(
    group: typer.Typer, name: str, act: Act, *, try_this: Iterable[str], help: str | None = None
) -> None:
    """Add a command that is given a `CommandContext`, with the flags that lead to the master."""

    def run(**given: Any) -> None:
        access = Access(**{name: given.pop(name) for name in Access.__struct_fields__})
        output = CommandOutput(json=given.pop("as_json"))
        loop.run(at_desk(act, access, output, given))

    own = list(inspect.signature(act).parameters.values())[1:]
    shared = inspect.signature(_shared_flags).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=keyword) for parameter in (*own, *shared)]
    )
    run.__doc__ = act.__doc__
    add_command(group, name, run, try_this=try_this, help=help)


def examples(*lines: str) -> str:
    """The end of a help page."""
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n\n".join([title, *(f"[cyan]  {escape(line)}[/cyan]" for line in lines)])


async def for_each(things: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do the work for each thing, some at once; the first error ends it."""
    waiting = iter(things)

    async def take() -> None:
        for thing in waiting:
            await work(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(take())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def at_desk(act: Act, access: Access, output: CommandOutput, given: dict[str, Any]) -> None:
    """Run a command with a client of the master that the flags name."""
    async with reach(access) as fleet:
        await act(CommandContext(fleet, output), **given)


def reach(access: Access) -> "Client":
    """Return a client of the master that the flags name, to be entered. It does not retry: people
    at a terminal want to know at once that no master answers."""
    with loading():
        from crawlfleet.cli.shell.connection import find_connection
        from crawlfleet.client import Client

    connection = find_connection(access, environ=os.environ, cwd=Path.cwd(), home=Path.home())
    return Client(connection.url, connection.key, patience_s=0, trust=connection.trust)


def _shared_flags(
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of the master, or of several parted by commas; also CRAWLFLEET_URL."
        ),
    ] = None,
    key: ApiKey = None,
    data: DataFolder = None,
    ca: Authorities = None,
    cert: Certificate = None,
    cert_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """The flags of every command that talks to a master; never called."""
