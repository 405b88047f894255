"""`open`: the dashboard, signed in."""

from typing import Annotated

import typer

from crawlfleet.cli.shell.browser import show
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "open",
        open_dashboard,
        try_this=(
            "crawlfleet open",
            "crawlfleet open --print",
            "crawlfleet open --url http://10.0.0.1:8000 --key 4b0d…e1",
        ),
    )


async def open_dashboard(
    desk: CommandContext,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the link, and open nothing.")
    ] = False,
) -> None:
    """Open the dashboard in a browser, signed in with your key; prints the link as well.

    The link is good once, for 10 minutes: for this machine, or for another browser.
    """
    link = await desk.fleet.create_session_link()
    url = desk.fleet.url.partition(",")[0] + link.path
    desk.output.line({"url": url, "expires_at": link.expires_at}, cell(url))
    if only_print or desk.output.json or not await show(url):
        desk.output.remark("open it in a browser within 10 minutes; it is good once")
