"""Sends an order to several things at once, and reports each refusal."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import typer
from rich.console import RenderableType

from crawlfleet.cli.shell.command import CommandContext, for_each
from crawlfleet.cli.shell.errors import FAILED, report
from crawlfleet.errors import CrawlfleetError, MasterUnreachable

V = TypeVar("V")
Ids = Annotated[list[str], typer.Argument(metavar="ID", show_default=False)]


async def order_each(
    desk: CommandContext,
    ids: Sequence[str],
    order: Callable[[str], Awaitable[V | None]],
    draw: Callable[[Sequence[V]], RenderableType],
) -> None:
    """Give an order for each id and show what came of it; exits with 1 if any was refused.

    What is gone without an answer that could be shown (`None`) is left out.
    """
    done: dict[str, V | None] = {}
    refused: dict[str, CrawlfleetError] = {}

    async def give(id: str) -> None:
        try:
            done[id] = await order(id)
        except MasterUnreachable:
            raise
        except CrawlfleetError as error:
            refused[id] = error

    await for_each(dict.fromkeys(ids), give)
    views = [view for id in dict.fromkeys(ids) if (view := done.get(id)) is not None]
    if views or desk.output.json:
        desk.output.show(views, lambda: draw(views))
    for id, error in refused.items():
        report(error, id)
    if refused:
        raise typer.Exit(FAILED)
