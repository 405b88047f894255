"""Whole crawls for tests: run one here or as a command, and compare it with the truth."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import msgspec

from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.core.urls.canonical import fingerprint
from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.crawl.engine.local import local_crawl
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.parameters import (
    FAST,
    CrawlParameters,
    Fetching,
    Politeness,
    Scope,
    SinkSpec,
)
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from crawlfleet.testing.zoo.animal import reply
from tests.crawl_figures import assert_agrees
from tests.unread_errors import check_told

SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
HASTY = msgspec.structs.replace(FAST, retry_delay_s=0.1)
"""No delay, no robots.txt, and soon again."""
POLITE = Politeness(delay_s=0.0, concurrency=4, adaptive=False, retry_delay_s=0.1)
"""robots.txt is obeyed, and nothing else costs time."""


class Crawled(NamedTuple):
    summary: Summary
    items: list[dict[str, Any]]
    frontier: Path
    parameters: CrawlParameters

    def record(self, url: str) -> UrlRecord | None:
        return records(self.frontier, self.parameters, [url])[0]


def parameters_for(folder: Path, *seeds: str, **options: Any) -> CrawlParameters:
    """A crawl of loopback sites into `folder`, of any host."""
    return CrawlParameters(
        urls=seeds,
        **{
            "selectors": SELECTORS,
            "scope": Scope(within="any"),
            "politeness": HASTY,
            "fetching": Fetching(allow_private=True),
            "sinks": (SinkSpec(url=str(folder / "items.jsonl")),),
            **options,
        },
    )


def crawl(folder: Path, *seeds: str, within_s: float = 60.0, **options: Any) -> Crawled:
    """Crawl to the end."""
    parameters = parameters_for(folder, *seeds, **options)
    frontier = folder / "frontier.db"

    async def run() -> Summary:
        async with asyncio.timeout(within_s):
            return await local_crawl(parameters, frontier=frontier).run(asyncio.Event())

    summary = asyncio.run(run())
    items = lines(folder / "items.jsonl")
    if "sinks" not in options:
        assert_agrees(summary, len(items))
    return Crawled(summary, items, frontier, parameters)


def records(
    frontier: Path, parameters: CrawlParameters, urls: Sequence[str]
) -> list[UrlRecord | None]:
    """What the frontier remembers of canonical URLs."""

    async def ask() -> list[UrlRecord | None]:
        books = SqliteFrontier(path=frontier, rules=rules_of(parameters))
        await books.open()
        try:
            return [await books.record(fingerprint(url)) for url in urls]
        finally:
            await books.close()

    return asyncio.run(ask())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def truth(spec: SiteSpec, pages: Sequence[int]) -> list[tuple[str, str]]:
    """The items of those pages, in order of their titles."""
    found = (product for page in pages for product in spec.products(page))
    return sorted((product.title, product.price) for product in found)


def told(items: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((item["title"], item["price"]) for item in items)


def visits(site: ServedSite) -> dict[int, int]:
    """How often each page was asked for."""
    counts: dict[int, int] = {}
    for hit in site.hits():
        if hit.page >= 0:
            counts[hit.page] = counts.get(hit.page, 0) + 1
    return counts


class Command:
    """`crawlfleet crawl` as people start it, with a home of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder / "out" / "items.jsonl"
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self._home = folder / "home"
        fields = [f"--css={name}={SELECTORS[name]}" for name in ("title", "price")]
        fields.append(f"--item={SELECTORS['product']}")
        self._command = [sys.executable, "-m", "crawlfleet", "crawl", *arguments, *fields]
        self._private = ["--allow-private"]
        self._places = ["-o", str(self.output)]

    def allow_private(self, allowed: bool) -> None:
        self._private = ["--allow-private"] if allowed else []

    def replace_output(self, places: Sequence[str]) -> None:
        """Write elsewhere; the options that say so."""
        self._places = [*places]

    def start(self, *more: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(self._home), "COLUMNS": "200"}
        return subprocess.Popen(
            [*self._command, *self._private, *self._places, *more],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *more: str, within_s: float = 90.0) -> tuple[int, str]:
        """Exit code and all that was said."""
        with self.start(*more) as process:
            said, _ = process.communicate(timeout=within_s)
        check_told(said, by="the crawl")
        return process.returncode, said


class Asked(NamedTuple):
    """A request as an odd site saw it."""

    host: str
    path: str
    cookie: str
    headers: Mapping[str, str]
    """Names in lower case."""


class OddSite:
    """Answers from a table of paths; what is not there is 404. Serves 127.0.0.1 to 127.0.0.3."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        """A whole answer, or a function from `Asked` to one."""
        self.asked: list[Asked] = []
        self.port = 0

    def url(self, path: str, host: int = 1) -> str:
        return f"http://127.0.0.{host}:{self.port}{path}"

    def page(
        self,
        path: str,
        *links: str,
        head: str = "",
        headers: Sequence[str] = (),
        title: str = "",
    ) -> None:
        """A page with links and a product."""
        anchors = "".join(f'<p><a href="{link}">more</a>' for link in links)
        product = (
            f'<div class="product"><h2 class="title">{title or path}</h2>'
            '<span class="price">1</span></div>'
        )
        body = f"<html><head>{head}</head><body>{product}{anchors}</body></html>"
        self.answers[path] = reply(body.encode(), *headers)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode("latin-1").split("\r\n")
                cookie = next((r[8:] for r in rest if r.lower().startswith("cookie: ")), "")
                headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in rest)}
                asked = Asked(host, first.split(" ")[1], cookie, headers)
                self.asked.append(asked)
                answer = self.answers.get(asked.path, reply(b"no", status="404 Not Found"))
                writer.write(answer(asked) if callable(answer) else answer)
                await writer.drain()
        writer.close()


@contextlib.contextmanager
def odd_site() -> Iterator[OddSite]:
    """An odd site in a thread of its own."""
    site = OddSite()
    loop = asyncio.new_event_loop()

    async def listen() -> None:
        first = await asyncio.start_server(site.serve, "127.0.0.1", 0)
        site.port = first.sockets[0].getsockname()[1]
        for number in (2, 3):
            await asyncio.start_server(site.serve, f"127.0.0.{number}", site.port)

    loop.run_until_complete(listen())
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
