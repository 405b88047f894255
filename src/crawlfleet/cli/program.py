"""The program: all commands under one name.

Modules that a command needs only when it runs (the HTTP client, the store, the scheduler) are
imported by the command, so that `--help` and completion answer at once.
"""

from typing import Annotated

import typer

from crawlfleet import __version__
from crawlfleet.cli import (
    audit,
    backup,
    clusters,
    configuration,
    crawl,
    crawls,
    dead_letters,
    distribute,
    doctor,
    events,
    explain,
    extract,
    join_tokens,
    keys,
    logs,
    nodes,
    opening,
    operate,
    projects,
    reset,
    status,
    submit,
    tasks,
)
from crawlfleet.cli.command import examples
from crawlfleet.cli.trouble import Program


def create_app() -> typer.Typer:
    """The program with all its commands."""
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
    for part in (
        operate,
        opening,
        distribute,
        crawl,
        status,
        submit,
        tasks,
        crawls,
        explain,
        extract,
        logs,
        dead_letters,
        nodes,
        projects,
        clusters,
        keys,
        join_tokens,
        events,
        audit,
        configuration,
        backup,
        reset,
        doctor,
    ):
        part.register(app)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"crawlfleet {__version__}")
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
