"""`crawlfleet crawl`: a whole crawl in one command, with nothing else started, or on a fleet."""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.command import (
    ApiKey,
    Authorities,
    Certificate,
    CertificateKey,
    DataFolder,
    add_command,
)
from crawlfleet.cli.shell.loop import loading
from crawlfleet.cli.shell.output import CommandOutput
from crawlfleet.stop_signals import on_stop_signal

if TYPE_CHECKING:
    from crawlfleet.model.crawl.parameters import CrawlParameters


NOTHING_FETCHED: Final = 4
EXAMPLE: Final = (
    "crawlfleet crawl https://shop.example --depth 2 --item 'div.product' "
    "--css 'title=h2.title' --css 'price=span.price' -o items.jsonl"
)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_command(
        app,
        "crawl",
        crawl,
        try_this=[
            EXAMPLE,
            "crawlfleet crawl https://blog.example --max-pages 500 -o pages.warc.gz",
            (
                "crawlfleet crawl http://localhost:8080 --fast --allow-private "
                "--css 'title=h1' -o items.csv"
            ),
            (
                "crawlfleet crawl https://shop.example --css 'title=h1' "
                "-o 'sqlite:///shop.db?table=goods' --revisit"
            ),
            (
                "crawlfleet crawl https://shop.example --fleet --workers 8 --scope domain "
                "--css 'title=h1' -o items.jsonl"
            ),
            (
                "crawlfleet crawl https://shop.example --master https://fleet.example --key KEY "
                "--css 'title=h1' -o items.csv.gz"
            ),
        ],
    )


def crawl(
    urls: Annotated[list[str], typer.Argument(help="Where to begin.", metavar="URL...")],
    output: Annotated[
        list[str],
        typer.Option(
            "-o",
            "--output",
            metavar="FILE|TABLE",
            help="Where to put what is found; again for several places. The ending of a file "
            "tells its format (.jsonl, .csv, .warc; each also with .gz or .zst). Tables: "
            "sqlite:///shop.db?table=items, postgresql://user@host/db?table=items.",
        ),
    ],
    depth: Annotated[
        int | None, typer.Option(min=0, help="How many links to follow from where it begins.")
    ] = None,
    item: Annotated[
        str | None,
        typer.Option(
            metavar="SELECTOR",
            help="What one item is, such as 'div.product': each match is one, with its fields "
            "within. Without it, each page is one item.",
        ),
    ] = None,
    css: Annotated[
        list[str] | None, typer.Option(help="A field and its CSS selector, as name=selector.")
    ] = None,
    xpath: Annotated[
        list[str] | None, typer.Option(help="A field and its XPath, as name=expression.")
    ] = None,
    selectors: Annotated[
        Path | None,
        typer.Option(help="A JSON file with the selectors, nested ones too.", exists=True),
    ] = None,
    structured: Annotated[
        bool, typer.Option(help="Also take JSON-LD and OpenGraph data of each page.")
    ] = False,
    max_pages: Annotated[int | None, typer.Option(min=1, help="Stop after so many pages.")] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after so long; can be resumed.")
    ] = None,
    scope: Annotated[
        str, typer.Option(help="Which links to follow: host, domain, prefix or any.")
    ] = "host",
    allow: Annotated[
        list[str] | None, typer.Option(help="Follow only URLs that this expression matches.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(help="Do not follow URLs that this expression matches.")
    ] = None,
    sitemaps: Annotated[bool, typer.Option(help="Also follow the sites' sitemaps.")] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=256, help="Processes that visit; on a fleet, tasks that share the crawl."
        ),
    ] = 1,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="No delay, 16 requests at once, no robots.txt: own sites only."
        ),
    ] = False,
    delay: Annotated[
        float | None, typer.Option(min=0, help="Seconds between two requests to a host.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests to one host at once.")
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Visit loopback and private networks, too.")
    ] = False,
    user_agent: Annotated[str | None, typer.Option(help="How to introduce ourselves.")] = None,
    contact: Annotated[
        str | None, typer.Option(help="A page or address for sites that want to complain.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help="A header, as 'Name: value'.")] = None,
    proxy: Annotated[str | None, typer.Option(help="http://, https:// or socks5:// proxy.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, and replace what an earlier run wrote.")
    ] = False,
    revisit: Annotated[
        bool,
        typer.Option(
            "--revisit",
            help="When it is finished: go through all pages again. Those that have not changed "
            "are not sent again, and keep their items.",
        ),
    ] = False,
    summary: Annotated[
        Path | None, typer.Option(help="Write the summary there as JSON.", dir_okay=False)
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Do not crawl: say what became of this URL in an earlier run of the same command.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="At the end, write the summary as one JSON document.")
    ] = False,
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet",
            help="Let a fleet do it, and fetch what it found: the fleet of CRAWLFLEET_URL, or "
            "that of this machine.",
        ),
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(help="Let the fleet with the master at this address do it.", metavar="URL"),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="On a fleet: the project that owns the crawl.")
    ] = None,
    cancel_on_interrupt: Annotated[
        bool,
        typer.Option(
            "--cancel-on-interrupt",
            help="On a fleet: Ctrl-C cancels the crawl, and does not only stop watching.",
        ),
    ] = False,
    key: ApiKey = None,
    data: DataFolder = None,
    ca: Authorities = None,
    cert: Certificate = None,
    cert_key: CertificateKey = None,
) -> None:
    """Crawl a site and take what is wanted from its pages.

    Ctrl-C stops it, and the same command goes on where it was, also after a crash. Sites are
    treated politely: robots.txt is obeyed, and a host is asked once a second.

    With --fleet or --master the nodes of a fleet do it: Ctrl-C then stops watching, the crawl goes
    on, and the same command finds it again.
    """
    with loading():
        from crawlfleet.cli.crawl.options import parameters_of
        from crawlfleet.cli.crawl.outputs import outputs_of
        from crawlfleet.cli.crawl.state import CrawlState

    if fresh and revisit:
        raise typer.BadParameter("--fresh forgets what --revisit builds on; use one of them")
    on_fleet = fleet or master is not None
    access = Access(url=master, key=key, data=data, ca=ca, cert=cert, cert_key=cert_key)
    if on_fleet and revisit:
        raise typer.BadParameter("a fleet does not revisit; leave out --revisit, or use --fresh")
    if not on_fleet and (access != Access() or project or cancel_on_interrupt):
        raise typer.BadParameter(
            "--key, --data, --ca, --cert, --cert-key, --project and --cancel-on-interrupt are for "
            "a crawl on a fleet; add --fleet or --master"
        )
    outputs = outputs_of(output)
    parameters = parameters_of(
        urls=urls,
        outputs=outputs,
        depth=depth,
        item=item,
        css=css or [],
        xpath=xpath or [],
        selectors=selectors,
        structured=structured,
        max_pages=max_pages,
        max_seconds=max_seconds,
        scope=scope,
        allow=allow or [],
        deny=deny or [],
        sitemaps=sitemaps,
        workers=workers,
        fast=fast,
        delay=delay,
        concurrency=concurrency,
        allow_private=allow_private,
        user_agent=user_agent,
        contact=contact,
        headers=header or [],
        proxy=proxy,
    )
    state = CrawlState.of(outputs, parameters, on_fleet=on_fleet)
    if on_fleet:
        from crawlfleet.cli.crawl.fleet import CrawlOrder, crawl_on_fleet, explain_on_fleet

        order = CrawlOrder(
            parameters=parameters,
            outputs=outputs,
            fresh=fresh,
            cancels=cancel_on_interrupt,
            project=project,
        )
        if why is not None:
            explain_on_fleet(access, state, why)
            return
        code, ended = crawl_on_fleet(order, access, state, quiet=quiet)
    elif why is not None:
        _explain(parameters, state, why)
        return
    else:
        start = "fresh" if fresh else "revisit" if revisit else "go on"
        code, ended = _run(parameters, state, start=start, quiet=quiet)
    if ended is not None:
        _write(summary, ended)
        if as_json:
            CommandOutput(json=True).show(ended, lambda: "")
    raise typer.Exit(code)


def _explain(parameters: "CrawlParameters", state: "CrawlState", url: str) -> None:
    from crawlfleet.cli.crawl.display import print_explanation
    from crawlfleet.cli.shell.loop import run
    from crawlfleet.crawl.engine.crawl import explain
    from crawlfleet.crawl.engine.local import local_frontier

    with state.held():
        state.check_known()
        frontier = local_frontier(parameters, state.frontier)
        print_explanation(run(explain(parameters, frontier, url)))


def _run(
    parameters: "CrawlParameters",
    state: "CrawlState",
    *,
    start: str,
    quiet: bool,
) -> "tuple[int, Summary]":
    with loading():
        from crawlfleet import plugins
        from crawlfleet.adapters.sinks.page_index import PageIndex
        from crawlfleet.cli.crawl.display import Display
        from crawlfleet.cli.shell.loop import run
        from crawlfleet.crawl.engine.gc import keep_memory, look_seldom
        from crawlfleet.crawl.engine.local import local_crawl, local_frontier
        from crawlfleet.crawl.engine.seed_outcomes import fates_of_seeds

    display = Display(quiet=quiet)
    with plugins.remembering(plugins.FRONTIERS, plugins.SINKS), ExitStack() as held:
        local_crawl(parameters, frontier=state.frontier)  # tells what is wrong before all else
        held.enter_context(state.held())
        if start == "fresh":
            from crawlfleet.compose.by_url import discard_rows

            run(discard_rows(parameters.sinks, frontier=state.frontier))
            state.clear()
        elif start == "go on" and (earlier := state.finished()) is not None:
            display.already_done(earlier, state.name)
            return 0, earlier
        state.begin(revisit=start == "revisit")
        display.begin(parameters, resumed=state.resumed, again=state.round > 1)
        running = local_crawl(
            msgspec.structs.replace(parameters, sinks=state.sinks()),
            frontier=state.frontier,
            also={str(state.index): PageIndex(state.index)},
            round=state.round,
            warn=display.warn,
        )
        keep_memory()
        look_seldom()
        ended = run(_crawl(running, display), fast=True)
        barren = ended.finished and not ended.pages
        if barren:
            told = run(fates_of_seeds(parameters, local_frontier(parameters, state.frontier)))
        else:
            ended = state.end(ended)
    display.end(ended, state.name)
    if barren:
        display.nothing_fetched(told)
        if state.round == 1:
            state.forget()
        return NOTHING_FETCHED, ended
    return 0 if ended.finished else 130 if ended.why == "stopped" else 3, ended


async def _crawl(running: "CrawlRun", display: "Display") -> "Summary":
    from crawlfleet.cli.crawl.progress import sight_of

    stop = asyncio.Event()

    async def look() -> "Sight":
        return sight_of(await running.progress())

    with on_stop_signal(stop.set):
        async with display.shown(look, stop):
            return await running.run(stop)


def _write(path: Path | None, summary: "Summary") -> None:
    if path is not None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")


if TYPE_CHECKING:
    from crawlfleet.cli.crawl.display import Display
    from crawlfleet.cli.crawl.progress import Sight
    from crawlfleet.cli.crawl.state import CrawlState
    from crawlfleet.crawl.engine.crawl import CrawlRun, Summary
