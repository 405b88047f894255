"""The program: all commands under one name.

Modules that a command needs only when it runs (the HTTP client, the store, the scheduler) are
imported by the command, so that `--help` and completion answer at once. The commands themselves
are in parts, and whoever names one at once gets its part alone: reading and preparing all of them
takes as long as many a command runs.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from crawlfleet import __version__
from crawlfleet.cli.shell.command import examples
from crawlfleet.cli.shell.errors import Program

PARTS: Final = {
    "fleet.run": ("up", "master", "worker"),
    "fleet.dashboard": ("open",),
    "distribution.command": ("distribute",),
    "crawl.command": ("crawl",),
    "fleet.status": ("status", "statistics", "attention"),
    "commands.submit": ("submit",),
    "commands.whoami": ("whoami", "task-types"),
    "commands.tasks": ("tasks",),
    "commands.crawls": ("crawls",),
    "commands.workflows": ("workflows",),
    "commands.schedules": ("schedules",),
    "commands.webhooks": ("webhooks",),
    "commands.alerts": ("alerts",),
    "commands.hosts": ("hosts",),
    "commands.quality": ("quality",),
    "commands.breakers": ("breakers",),
    "commands.explain": ("explain",),
    "crawl.try_selectors": ("extract",),
    "commands.logs": ("logs",),
    "commands.dead_letters": ("dead-letters",),
    "commands.nodes": ("nodes",),
    "commands.projects": ("projects",),
    "commands.quotas": ("quotas",),
    "commands.bundles": ("deploy", "bundles"),
    "commands.secrets": ("secrets",),
    "commands.clusters": ("clusters",),
    "commands.keys": ("keys",),
    "commands.join_tokens": ("join-tokens",),
    "commands.events": ("events",),
    "commands.audit": ("audit",),
    "fleet.configuration": ("init", "config"),
    "fleet.backup": ("backup", "restore"),
    "fleet.reset": ("reset",),
    "fleet.doctor": ("doctor",),
}
"""The modules below `crawlfleet.cli` that have commands, in the order of the help, and which."""


def create_app(words: Sequence[str] = ()) -> typer.Typer:
    """The program with all its commands; or with those that can be meant by the words after its
    name, where the first of them tells."""
    app = typer.Typer(
        name="crawlfleet",
        cls=Program,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=examples(
            "crawlfleet up", "crawlfleet submit sleep -p seconds=1 --wait", "crawlfleet status"
        ),
    )
    app.callback()(_program)
    named = [part for part, commands in PARTS.items() if words and words[0] in commands]
    for part in named or PARTS:
        import_module(f"crawlfleet.cli.{part}").register(app)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        busy = find_spec("crawlfleet.core.urls.canonical")
        is_plain = busy is None or (busy.origin or "").endswith(".py")
        typer.echo(f"crawlfleet {__version__} ({'not compiled' if is_plain else 'compiled'})")
        raise typer.Exit


def _program(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks when something fails.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Submit crawl work once, and a fleet of machines finishes all of it."""
