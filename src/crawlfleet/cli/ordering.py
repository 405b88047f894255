"""Orders to several things at once: each is told, and each refusal is reported."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import typer
from rich.console import RenderableType

from crawlfleet.cli.command import Desk, for_each
from crawlfleet.cli.trouble import FAILED, report
from crawlfleet.errors import CrawlfleetError, MasterUnreachable

V = TypeVar("V")
Ids = Annotated[list[str], typer.Argument(metavar="ID", show_default=False)]


async def order_each(
    desk: Desk,
    ids: Sequence[str],
    order: Callable[[str], Awaitable[V]],
    draw: Callable[[Sequence[V]], RenderableType],
) -> None:
    """Give an order for each id and show what came of it; exits with 1 if any was refused."""
    done: dict[str, V] = {}
    refused: dict[str, CrawlfleetError] = {}

    async def give(id: str) -> None:
        try:
            done[id] = await order(id)
        except MasterUnreachable:
            raise
        except CrawlfleetError as error:
            refused[id] = error

    await for_each(dict.fromkeys(ids), give)
    views = [done[id] for id in dict.fromkeys(ids) if id in done]
    if views or desk.output.json:
        desk.output.show(views, lambda: draw(views))
    for id, error in refused.items():
        report(error, id)
    if refused:
        raise typer.Exit(FAILED)
