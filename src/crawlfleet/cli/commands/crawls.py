"""`crawls`: show the crawls of the fleet and their output, and control them."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, heading, moment, since, state, table
from crawlfleet.errors import CrawlfleetError
from crawlfleet.features.crawls.views import CrawlItem, CrawlView, UrlExplanation
from crawlfleet.model.crawl.figures import CrawlFigures, HostReport

if TYPE_CHECKING:
    from crawlfleet.client.http.fields import CrawlVerb

VERBS: Final[dict["CrawlVerb", str]] = {
    "pause": "Hold crawls: what is under way is finished, and nothing more begun.",
    "resume": "Let crawls go on.",
    "stop": "End crawls with what they have; they complete.",
}
SHOWN_HOSTS: Final = 10
STANDARD_OUTPUT: Final = "-"
PACKED: Final = {"gz": "gzip", "zst": "zstd"}
"""Endings of files that something else makes, and what."""
Id = Annotated[str, typer.Argument(metavar="CRAWL", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Look at crawls, fetch what they found, and steer them."
    )
    app.add_typer(group, name="crawls")
    add_fleet_command(
        group,
        "list",
        list_crawls,
        try_this=("crawlfleet crawls list", "crawlfleet crawls list --status processing"),
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet crawls show task-01j…"])
    add_fleet_command(group, "work", work, try_this=["crawlfleet crawls work task-01j…"])
    add_fleet_command(
        group,
        "items",
        items,
        try_this=(
            "crawlfleet crawls items task-01j…",
            "crawlfleet crawls items task-01j… --kind products --limit 5 --json",
        ),
    )
    add_fleet_command(
        group,
        "download",
        download,
        try_this=(
            "crawlfleet crawls download task-01j… -o items.jsonl",
            "crawlfleet crawls download task-01j… --format csv -o items.csv",
            "crawlfleet crawls download task-01j… | jq .price",
        ),
    )
    add_fleet_command(
        group, "why", why, try_this=["crawlfleet crawls why task-01j… https://shop.example/cart"]
    )
    for verb, help in VERBS.items():
        try_this = [f"crawlfleet crawls {verb} task-01j…"]
        add_fleet_command(group, verb, _order(verb), try_this=try_this, help=help)


async def list_crawls(
    desk: CommandContext,
    status: Annotated[
        str, typer.Option(help="Only crawls in this state; several are parted by commas.")
    ] = "",
    project: Annotated[str | None, typer.Option(help="Only crawls of this project.")] = None,
    node: Annotated[str | None, typer.Option(help="Only crawls on this node.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List crawls, newest first."""
    found = [
        crawl
        async for crawl in desk.fleet.crawls(
            status=status, project_id=project, node_id=node, limit=limit
        )
    ]
    desk.output.show(found, lambda: draw_crawls(found))
    if len(found) == limit:
        desk.output.remark(f"the newest {limit}; --limit shows more")


async def show(desk: CommandContext, id: Id) -> None:
    """Show one crawl: its figures, its hosts, its output."""
    crawl = await desk.fleet.crawl(id)
    desk.output.show(crawl, lambda: draw_crawl(crawl))


async def work(desk: CommandContext, id: Id) -> None:
    """Show who does what in a crawl: shards, partitions, hosts, and who else visits them."""
    from crawlfleet.cli.commands.crawl_work_display import draw_work

    found = await desk.fleet.crawl_work(id)
    desk.output.show(found, lambda: draw_work(found))


async def items(
    desk: CommandContext,
    id: Id,
    kind: Annotated[str | None, typer.Option(help="Only items of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
) -> None:
    """Show what a crawl has found so far; long texts are cut."""
    found = [item async for item in desk.fleet.crawl_items(id, kind=kind, limit=limit)]
    desk.output.show(found, lambda: draw_items(found))


async def download(
    desk: CommandContext,
    id: Id,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The file to write; `-` is standard output.")
    ] = STANDARD_OUTPUT,
    format: Annotated[
        Literal["jsonl", "csv", "warc"] | None,
        typer.Option(help="JSON lines, CSV or WARC; by the ending of the file, else JSON lines."),
    ] = None,
) -> None:
    """Write all that a crawl has found into a file, which appears whole or not at all."""
    ending = output.rpartition(".")[2].lower()
    if ending in PACKED:
        raise typer.BadParameter(
            f"the file would not be packed; leave out .{ending}, or pack the standard output: "
            f"`crawlfleet crawls download {id} | {PACKED[ending]} > {output}`",
            param_hint="-o",
        )
    chosen = format or (ending if ending in {"csv", "warc"} else "jsonl")
    chunks = desk.fleet.download_crawl(id, format=chosen)
    if output == STANDARD_OUTPUT:
        async for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    size = await _save(chunks, Path(output))
    desk.output.remark(f"{output}: {size:,} bytes")


async def why(
    desk: CommandContext,
    id: Id,
    address: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
) -> None:
    """Say what became of a URL in a crawl."""
    explanation = await desk.fleet.explain_url(id, address)
    desk.output.show(explanation, lambda: draw_explanation(explanation))


def _order(verb: "CrawlVerb") -> Callable[..., Awaitable[None]]:
    async def order(desk: CommandContext, ids: Ids) -> None:
        await order_each(desk, ids, lambda id: desk.fleet.steer(id, verb), draw_crawls)

    return order


async def _save(chunks: AsyncIterator[bytes], target: Path) -> int:
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    size = 0
    try:
        with draft.open("wb") as file:
            async for chunk in chunks:
                size += file.write(chunk)
        draft.replace(target)
    except OSError as error:
        raise CrawlfleetError(
            f"{target} cannot be written: {error.strerror or error}; name another with -o"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return size


def draw_crawls(crawls: Sequence[CrawlView]) -> Table:
    """Crawls, one a line."""
    return table(
        ("id", "state", "pages", "rate", "items", "waiting", "age", "url"),
        (
            [
                cell(crawl.task_id),
                state(crawl.state),
                *_counts(crawl.figures),
                since(crawl.created_at),
                cell(crawl.url),
            ]
            for crawl in crawls
        ),
        flexible=("url",),
    )


def draw_crawl(crawl: CrawlView) -> RenderableType:
    """One crawl over several lines."""
    parts: list[RenderableType] = [
        facts(
            [
                ("id", cell(crawl.task_id)),
                ("url", cell(crawl.url)),
                ("state", state(crawl.state)),
                ("project", cell(crawl.project)),
                ("node", cell(crawl.node_id) if crawl.node_id else None),
                ("started", moment(crawl.started_at) if crawl.started_at else None),
                ("finished", moment(crawl.finished_at) if crawl.finished_at else None),
                ("output", _output(crawl)),
            ]
        )
    ]
    figures = crawl.figures
    if figures is not None:
        parts += [heading("Figures"), _figures(figures)]
        if figures.hosts:
            parts += [heading("Hosts"), _hosts(figures.hosts[:SHOWN_HOSTS])]
    return Group(*parts)


def draw_items(items: Sequence[CrawlItem]) -> Table:
    """Items, one a line, with a column for each field that any of them has."""
    names = [*dict.fromkeys(name for item in items for name in item.fields)]
    return table(
        ("number", "kind", *names),
        (
            [
                cell(item.number),
                cell(item.kind),
                *(cell(_plain(item.fields.get(name))) for name in names),
            ]
            for item in items
        ),
        flexible=names,
    )


def draw_explanation(explanation: UrlExplanation) -> RenderableType:
    """The answer in a few lines."""
    record = explanation.record
    if record is None:
        return facts(
            [
                ("url", cell(explanation.url)),
                ("kept out by", cell(explanation.refused_by) if explanation.refused_by else None),
                ("why", cell(explanation.why)),
            ]
        )
    return facts(
        [
            ("url", cell(record.url)),
            ("status", cell(record.status)),
            ("depth", cell(record.depth)),
            ("found on", cell(record.found_on or "it is one of the seeds")),
            ("visits", cell(record.attempts)),
            ("outcome", cell(record.outcome) if record.outcome else None),
            ("HTTP status", cell(record.http_status) if record.http_status else None),
            ("note", cell(record.note) if record.note else None),
        ]
    )


def _counts(figures: CrawlFigures | None) -> list[Text]:
    if figures is None:
        return [cell(None)] * 4
    rate = f"{figures.rate_per_s:g}/s"
    return [cell(figures.pages), cell(rate), cell(figures.items), cell(figures.waiting)]


def _figures(figures: CrawlFigures) -> Table:
    outcomes = ", ".join(f"{name} {number}" for name, number in sorted(figures.outcomes.items()))
    empty = ", ".join(f"{name} ({selector})" for name, selector in figures.empty_fields.items())
    return facts(
        [
            ("pages", cell(f"{figures.pages} ({figures.rate_per_s:g}/s)")),
            ("items", cell(figures.items)),
            (
                "URLs",
                cell(
                    f"{figures.known} known: {figures.waiting} waiting, "
                    f"{figures.in_flight} under way, {figures.done} done"
                ),
            ),
            ("failed", cell(figures.failed)),
            *([("caught nothing", cell(empty))] if empty else ()),
            ("requests", cell(f"{figures.requests}, {figures.retries} to be tried again")),
            ("bytes", cell(f"{figures.bytes:,}")),
            ("outcomes", cell(outcomes)),
            ("by depth", cell(" ".join(map(str, figures.depths)))),
        ]
    )


def _hosts(hosts: Sequence[HostReport]) -> Table:
    return table(
        ("host", "pages", "waiting", "errors", "latency", "why"),
        (
            [
                cell(host.host),
                cell(host.pages),
                cell(host.waiting),
                cell(host.errors),
                cell(None if host.latency_ms is None else f"{host.latency_ms:g} ms"),
                cell(host.why),
            ]
            for host in hosts
        ),
        flexible=("host",),
    )


def _output(crawl: CrawlView) -> Text | None:
    if crawl.output is None:
        return cell(crawl.output_missing, lines=True) if crawl.output_missing else None
    return cell(f"{crawl.output.items} items, as {' or '.join(crawl.output.formats)}")


def _plain(value: Any) -> Any:
    return " | ".join(map(str, value)) if isinstance(value, list) else value
