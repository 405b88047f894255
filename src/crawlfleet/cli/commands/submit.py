"""`submit`: one task, many like it, or a file of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

import typer

from crawlfleet.cli.commands import batch
from crawlfleet.cli.shell import waiting
from crawlfleet.cli.shell.arguments import (
    STANDARD_INPUT,
    ExpectationSource,
    Pairs,
    ParameterSource,
    parse_amounts,
    parse_expectations,
    parse_pairs,
    parse_parameters,
    parse_texts,
)
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.errors import FAILED
from crawlfleet.cli.shell.output import cell

WHERE: Final = "Where it may run"
HOW: Final = "How it is run"
CODE: Final = "Code that was deployed"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "submit",
        submit,
        try_this=(
            "crawlfleet submit sleep -p seconds=1 --wait",
            "crawlfleet submit http_fetch -p url=https://example.org",
            "crawlfleet submit sleep -p seconds=0.1 --count 1000",
            "crawlfleet submit python -p function=shop.price --isolation L3",
            "crawlfleet submit web_crawl --parameters @shop.json --expect @expected.yaml",
            "crawlfleet submit --file tasks.jsonl --idempotency-key monday",
            "crawlfleet submit sleep -p seconds=1 --callback-url https://flow.example/hooks/1",
            "crawlfleet submit scrapy_spider --bundle my_project --spider quotes -a tag=humor",
            "crawlfleet submit scrapy_spider --bundle my_project --spider quotes --workers 4",
        ),
    )


async def submit(
    desk: CommandContext,
    task_type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="The kind of work, such as http_fetch.")
    ] = None,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    expect: ExpectationSource = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[@VERSION]",
            help="The code to run, as `crawlfleet deploy` named it.",
            rich_help_panel=CODE,
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A secret of the project that the code is given. May be repeated.",
            rich_help_panel=CODE,
        ),
    ] = None,
    spider: Annotated[
        str | None, typer.Option(help="The spider of a Scrapy project.", rich_help_panel=CODE)
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            "--argument",
            metavar="NAME=VALUE",
            help="An argument of the spider. May be repeated.",
            rich_help_panel=CODE,
        ),
    ] = None,
    scrapy_settings: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--set",
            metavar="NAME=VALUE",
            help="A setting of Scrapy, over that of the project. May be repeated.",
            rich_help_panel=CODE,
        ),
    ] = None,
    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            help="Keep the requests of the spider at the master, so that it goes on where it was "
            "when its worker dies.",
            rich_help_panel=CODE,
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Share the spider among so many workers at once; it is distributed then.",
            rich_help_panel=CODE,
        ),
    ] = None,
    split_hosts: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Split each host into so many parts, so that several workers can ask it at once.",
            rich_help_panel=CODE,
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(help="1 to 10; 10 is most urgent.", rich_help_panel=HOW)
    ] = None,
    max_retries: Annotated[
        int | None, typer.Option(help="How often to try again.", rich_help_panel=HOW)
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="How long one attempt may take.", rich_help_panel=HOW),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What it is about; the first takes turns with others of the same priority. May be "
            "repeated.",
            rich_help_panel=HOW,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="By when it should be done, from now on; sooner ones go first.",
            rich_help_panel=HOW,
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster whose nodes may do it.", rich_help_panel=HOW)
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="The project that owns it.", rich_help_panel=HOW)
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="Submitting again with this key makes no new task.", rich_help_panel=HOW),
    ] = None,
    dedup_key: Annotated[
        str | None,
        typer.Option(
            help="While a task with this key is alive or recent, no second is made.",
            rich_help_panel=HOW,
        ),
    ] = None,
    callback_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Who is told of it: :update and :complete are added. The project needs a webhook "
            "of the format callback.",
            rich_help_panel=HOW,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="DOMAIN",
            help="The site that it depends on, if its addresses do not tell: it waits while that "
            "is down.",
            rich_help_panel=HOW,
        ),
    ] = None,
    no_breaker: Annotated[
        bool,
        typer.Option(
            "--no-breaker",
            help="Do not wait while its site is taken for down.",
            rich_help_panel=HOW,
        ),
    ] = False,
    minimum: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="RESOURCE=AMOUNT",
            help="Resources that must be free, such as cpu_cores=2.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What the node must be able to do, such as javascript=true.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="How to choose among nodes.", rich_help_panel=WHERE)
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="Where the target is.", rich_help_panel=WHERE)
    ] = None,
    node_type: Annotated[
        str | None, typer.Option(help="The kind of node.", rich_help_panel=WHERE)
    ] = None,
    isolation: Annotated[
        Literal["L1", "L2", "L3", "L4"] | None,
        typer.Option(
            help="How well it must be kept apart: in a cell of a node that offers this level.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Submit so many of this task.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="Submit a task for each line of JSON; what a line leaves out, the flags say.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; fail unless all completed.")
    ] = False,
) -> None:
    """Submit work: one task, --count equal ones, or the tasks of a --file."""
    if task_type is None and file is None:
        raise typer.BadParameter("name a task type, or a --file of tasks", param_hint="TYPE")
    if count is not None and file is not None:
        raise typer.BadParameter("cannot be combined with --file", param_hint="--count")
    given: dict[str, Any] = {
        "task_type": task_type,
        "parameters": {
            **parse_parameters(parameters, pairs),
            **_of_spider(spider, arguments, scrapy_settings, distributed, workers, split_hosts),
        }
        or None,
        "bundle": bundle,
        "secrets": secret or None,
        "priority": priority,
        "min_resources": parse_amounts(minimum, "--min") or None,
        "capabilities": parse_pairs(capability, "--capability") or None,
        "schedule_strategy": strategy,
        "target_region": region,
        "node_type": node_type,
        "isolation": isolation,
        "cluster_id": cluster,
        "project_id": project,
        "max_retries": max_retries,
        "timeout": timeout,
        "categories": category or None,
        "deadline": deadline,
        "idempotency_key": idempotency_key,
        "dedup_key": dedup_key,
        "expectations": parse_expectations(expect),
        "callback_url": callback_url,
        "target": target,
        "breaker": False if no_breaker else None,
    }
    draft = {name: value for name, value in given.items() if value is not None}
    if file is not None:
        with _opened(file) as lines:
            await _submit_many(desk, batch.read_lines(lines, draft), None, wait=wait)
    elif count is not None:
        await _submit_many(desk, batch.copies(draft, count), count, wait=wait)
    else:
        await _submit_one(desk, draft, wait=wait)


def _of_spider(
    spider: str | None,
    arguments: list[str] | None,
    settings: list[str] | None,
    distributed: bool,
    workers: int | None,
    split_hosts: int | None,
) -> dict[str, Any]:
    """The parameters of `scrapy_spider`, as Scrapy's own command line has them: all is text."""
    given = {
        "spider": spider,
        "arguments": parse_texts(arguments, "-a"),
        "settings": parse_texts(settings, "-s"),
        "distributed": distributed,
        "workers": workers,
        "split_hosts": split_hosts,
    }
    return {name: value for name, value in given.items() if value}


async def _submit_one(desk: CommandContext, draft: dict[str, Any], *, wait: bool) -> None:
    receipt = await desk.fleet.submit(**draft)
    if receipt.deduplicated:
        desk.output.remark("no new task was made: one with this key is there")
    if wait:
        with waiting.submitted([receipt.id], "tasks wait"):
            await waiting.wait_for_one(desk, receipt.id)
        return
    desk.output.show(receipt, lambda: cell(receipt.id))
    desk.output.remark(f"{receipt.status}; `crawlfleet tasks wait {receipt.id}` waits for its end")


async def _submit_many(
    desk: CommandContext, entries: Iterator[batch.BatchEntry], total: int | None, *, wait: bool
) -> None:
    reply = await batch.send(desk, entries, total)
    refused = batch.complain(reply)
    if not wait:
        desk.output.show(reply, lambda: batch.draw(reply))
    elif ids := [item.id for item in reply.items if item.id is not None]:
        with waiting.submitted(ids, "tasks wait"):
            await waiting.wait_for_all(desk, ids)
    if refused:
        raise typer.Exit(FAILED)


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        lines = Path(file).expanduser().open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: {file}", param_hint="--file") from None
    with lines:
        yield lines
