"""Crawls on a real fleet: their output is in the master's storage, each item exactly once."""

import asyncio
import contextlib
import csv
import html
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.client import Client
from crawlfleet.errors import Conflict
from crawlfleet.features.crawls.views import CrawlView
from tests.crawl_figures import Truth, assert_shown_everywhere
from tests.fleet.crawls_on_fleets import has_ended, submit, until
from tests.support.local_fleet import LocalFleet, running

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if SOAK else 240)]
together = pytest.mark.xdist_group("crawls on a fleet")
"""Of tests that share a fleet, which else each process of pytest would start for itself."""
PER_PAGE = 4
HOSTILE = (
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1234567890+1",
    "<script>alert(1)</script>",
    "</td><img src=x onerror=alert(1)>",
    'a,b"c\nd',
    "\x1b[31mred\u202e",
    "纸袋 — ﷽",
)


class Site:
    """Pages with items on them, each linking to the next ones; slow enough to be interrupted."""

    def __init__(self, pages: int, *, pause_s: float = 0.0, filler: int = 0) -> None:
        self.pages = pages
        self.pause_s = pause_s
        self.filler = "x" * filler
        self.log: list[str] = []
        """What was asked for."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.strip("/")
                site.log.append(name)
                known = name.isdigit() and int(name) < site.pages
                time.sleep(site.pause_s if known else 0)
                body = site.page(int(name)) if known else b"no"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/0"

    def title(self, page: int, number: int) -> str:
        return f"{HOSTILE[(page + number) % len(HOSTILE)]} {page}.{number}"

    def page(self, page: int) -> bytes:
        items = "".join(
            f"<div class=product><h2>{html.escape(self.title(page, n))}</h2>"
            f"<p>{self.filler}{page}</p></div>"
            for n in range(PER_PAGE)
        )
        links = "".join(f"<a href=/{page * 3 + n}>next</a>" for n in (1, 2, 3))
        return f"<html><body>{items}{links}</body></html>".encode()

    def outcome(self) -> Truth:
        """What a crawl of all of it comes to."""
        pages = len({each for each in self.log if each.isdigit() and int(each) < self.pages})
        return Truth(pages, self.pages * PER_PAGE, len(self.log))

    def truth(self) -> list[str]:
        titles = [self.title(page, n) for page in range(self.pages) for n in range(PER_PAGE)]
        return sorted(" ".join(title.split()) for title in titles)

    @contextlib.contextmanager
    def served(self) -> Iterator["Site"]:
        thread = Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def parameters(site: Site, **more: Any) -> dict[str, Any]:
    return {
        "url": site.url,
        "selectors": {"product": "div.product", "title": "h2", "text": "p"},
        "politeness": {"delay_s": 0, "concurrency": 2, "obey_robots": False, "adaptive": False},
        "fetching": {"allow_private": True},
        **more,
    }


def fleet_in(folder: Path, **settings: str) -> LocalFleet:
    settings = {"CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true", **settings}
    return LocalFleet(folder, workers=2, **settings)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """For all tests that harm nobody."""
    with running(fleet_in(tmp_path_factory.mktemp("crawls"))) as fleet:
        asyncio.run(fleet.until_ready(nodes=2))
        yield fleet


def has_items(number: int) -> Callable[[CrawlView], bool]:
    return lambda crawl: has_ended(crawl) or (crawl.output or crawl_nothing).items >= number


class crawl_nothing:  # noqa: N801
    items = 0


def command(fleet: LocalFleet, *words: str) -> subprocess.CompletedProcess[str]:
    """What `crawlfleet crawls` says."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CRAWLFLEET_")}
    environment |= {"CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key}
    line = [sys.executable, "-m", "crawlfleet", "crawls", *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)


def check_commands(fleet: LocalFleet, id: str, folder: Path) -> None:
    """Of a crawl that has completed with 120 pages."""
    assert id in command(fleet, "list").stdout
    shown = command(fleet, "show", id).stdout
    assert "480 items, as jsonl or csv" in shown
    assert "\x1b" not in command(fleet, "items", id, "--limit", "50").stdout
    (item,) = json.loads(command(fleet, "items", id, "--limit", "1", "--json").stdout)
    assert item["number"] == 1
    file = folder / "items.csv"
    assert command(fleet, "download", id, "-o", str(file)).returncode == 0
    assert len([*csv.reader(io.StringIO(file.read_text(), newline=""))]) == 481
    assert len(command(fleet, "download", id).stdout.splitlines()) >= 480
    refused = command(fleet, "stop", id)
    assert (refused.returncode, "is completed" in refused.stderr) == (1, True)
    assert "within" in command(fleet, "why", id, "http://127.0.0.1/").stdout


async def download(client: Client, id: str, format: str = "jsonl") -> bytes:
    return b"".join([chunk async for chunk in client.download_crawl(id, format=format)])


async def titles(client: Client, id: str) -> list[str]:
    """The titles of all items; the items themselves may have 200 MB."""
    found: list[str] = []
    rest = b""
    async for chunk in client.download_crawl(id, format="jsonl"):
        *lines, rest = (rest + chunk).split(b"\n")
        found += (json.loads(line)["title"] for line in lines)
    assert not rest
    return sorted(" ".join(title.split()) for title in found)


@together
def test_a_crawl_is_watched_steered_and_downloaded(fleet: LocalFleet, tmp_path: Path) -> None:
    site = Site(120, pause_s=0.02)

    async def scene() -> None:
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            await until(client, id, lambda crawl: bool(crawl.figures and crawl.figures.pages))

            paused = await client.steer(id, "pause")
            assert paused.state == "paused"
            held = await until(client, id, lambda c: bool(c.figures and c.figures.in_flight == 0))
            await asyncio.sleep(2.5)
            still = await client.crawl(id)
            assert held.figures is not None
            assert still.figures is not None
            assert (still.state, still.figures.pages) == ("paused", held.figures.pages)
            assert still.figures.at > held.figures.at

            visited = await client.explain_url(id, site.url)
            assert visited.record is not None
            assert visited.record.status == "done"
            foreign = await client.explain_url(id, "https://elsewhere.example/")
            assert (foreign.record, foreign.refused_by) == (None, "within")

            assert (await client.steer(id, "resume")).state == "processing"
            await until(client, id, has_ended)
            # The last words travel apart from the end.
            ended = await until(client, id, lambda c: bool(c.figures and c.figures.is_final))

            assert ended.state == "completed"
            assert ended.figures is not None
            await assert_shown_everywhere(fleet, client, id, site.outcome())
            assert ended.figures.known == ended.figures.done == 120 + ended.figures.failed
            assert sum(ended.figures.depths) == ended.figures.known
            assert sum(each.pages for each in ended.figures.hosts) == ended.figures.done
            await check_everywhere(client, id)
            visited = await client.explain_url(id, site.url)
            assert visited.record is not None
            assert visited.record.outcome == "ok"
            assert (await client.explain_url(id, "https://elsewhere.example/")).refused_by
            with pytest.raises(Conflict, match="completed"):
                await client.steer(id, "pause")
            assert [crawl.task_id async for crawl in client.crawls()].count(id) == 1
            await asyncio.to_thread(check_commands, fleet, id, tmp_path)

    async def check_everywhere(client: Client, id: str) -> None:
        truth = site.truth()
        assert await titles(client, id) == truth
        shown = [item async for item in client.crawl_items(id)]
        assert sorted(" ".join(item.fields["title"].split()) for item in shown) == truth
        assert [item.number for item in shown] == [*range(1, len(truth) + 1)]
        result = (await client.task(id)).result
        assert result is not None
        inline = [" ".join(item["title"].split()) for item in result["data"]["products"]]
        assert sorted(inline) == truth
        text = (await download(client, id, "csv")).decode()
        rows = [*csv.DictReader(io.StringIO(text, newline=""))]
        assert sorted(" ".join(row["title"].lstrip("'").split()) for row in rows) == sorted(
            title.lstrip("'") for title in truth
        )
        assert not [row for row in rows for each in row.values() if each.startswith(("=", "@"))]
        assert [*rows[0]] == ["page_url", "title", "text", "url"]
        assert {row["page_url"] for row in rows} <= {item.fields["page_url"] for item in shown}

    with site.served():
        asyncio.run(scene())


@together
def test_pages_are_kept_where_asked_for(fleet: LocalFleet, tmp_path: Path) -> None:
    site = Site(30, filler=1_500_000)

    async def scene() -> None:
        async with fleet.client() as client:
            id = await submit(client, parameters(site, sinks=[{"url": "fleet:pages"}]))
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert ended.output is not None
            assert ended.output.formats == ("jsonl", "csv", "warc")
            assert await titles(client, id) == site.truth()
            file = tmp_path / "pages.warc.gz"
            with file.open("wb") as archive:
                async for chunk in client.download_crawl(id, format="warc"):
                    archive.write(chunk)
            with file.open("rb") as archive:
                records = [
                    (record.rec_type, record.rec_headers.get_header("WARC-Target-URI"))
                    for record in ArchiveIterator(archive)
                    if record.content_stream().read() is not None
                ]
            assert records[0][0] == "warcinfo"
            answers = [url for kind, url in records if kind == "response"]
            root = site.url.removesuffix("/0")
            assert {f"{root}/{page}" for page in range(30)} <= set(answers)
            assert len(answers) == len(set(answers))

    with site.served():
        asyncio.run(scene())


@together
def test_a_crawl_that_is_stopped_completes_with_what_it_has(fleet: LocalFleet) -> None:
    site = Site(100_000, pause_s=0.01)

    async def scene() -> None:
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            await until(client, id, has_items(20))
            await client.steer(id, "stop")
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert ended.output is not None
            found = await titles(client, id)
            assert len(found) == len(set(found)) == ended.output.items >= 20
            result = (await client.task(id)).result
            assert result is not None
            assert len(result["data"]["products"]) == len(found)

    with site.served():
        asyncio.run(scene())


@together
def test_more_than_fits_into_a_result_is_all_in_the_output(fleet: LocalFleet) -> None:
    site = Site(60, filler=30_000)

    async def scene() -> None:
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            task = await client.task(id)
            assert task.result is not None
            assert task.result["data"] == {
                "items": 60 * PER_PAGE,
                "output": f"/api/v1/crawls/{id}/output",
            }
            assert len(await download(client, id)) > 60 * PER_PAGE * 30_000
            assert await titles(client, id) == site.truth()
            first = await anext(aiter(client.crawl_items(id, limit=1)))
            assert len(first.fields["text"]) == 2_001

    with site.served():
        asyncio.run(scene())


def test_a_zombie_that_wakes_up_adds_nothing(tmp_path: Path) -> None:
    site = Site(150, pause_s=0.01)

    def send(fleet: LocalFleet, order: signal.Signals) -> None:
        for process in [*fleet.processes("worker"), *fleet.processes("executor")]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(order)

    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            await until(client, id, has_items(60))
            send(fleet, signal.SIGSTOP)
            try:
                # Longer than a session lasts: the crawl is taken from its node.
                waiting = await until(client, id, lambda crawl: crawl.state == "pending")
                assert waiting.output is not None
            finally:
                send(fleet, signal.SIGCONT)
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await titles(client, id) == site.truth()
            await assert_shown_everywhere(fleet, client, id, site.outcome())
            assert len(await client.executions(id)) > 1

    with site.served(), running(fleet_in(tmp_path / "fleet")) as fleet:
        asyncio.run(scene(fleet))


@pytest.mark.parametrize("victim", ["executor", "worker", "master"] if SOAK else ["worker"])
def test_whatever_is_killed_during_a_crawl_each_item_is_there_once(
    tmp_path: Path, victim: str
) -> None:
    site = Site(150, pause_s=0.01)
    chance = random.Random(victim)
    kills = 6 if SOAK else 1

    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            expected = {"items": {"min": 600, "max": 600}, "fields": {"title": {"empty": 0}}}
            id = await submit(client, parameters(site), expectations=expected)
            for _ in range(kills):
                crawl = await until(client, id, has_items(chance.randrange(40, 300)))
                assert not has_ended(crawl), "it was over before anything could be killed"
                assert fleet.kill(victim)
                await asyncio.sleep(0.5)
                await fleet.until_ready()
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await titles(client, id) == site.truth()
            # What was measured is what there is: nothing of a life that was killed counts twice.
            (run,) = await client.task_quality(id)
            assert (run.verdict, run.items, run.pages) == ("ok", 600, 150)
            assert run.fields["title"].filled == run.fields["text"].filled == 600
            await assert_shown_everywhere(fleet, client, id, site.outcome())
            attempts = await client.executions(id)
            assert len(attempts) > 1 or victim == "master"
            runs = [*(fleet.folder / "output" / id).glob("*.segments")]
            assert len(runs) <= len(attempts)

    with site.served(), running(fleet_in(tmp_path / "fleet")) as fleet:
        asyncio.run(scene(fleet))


def test_a_paused_crawl_stays_paused_when_its_node_dies_and_the_master_starts_anew(
    tmp_path: Path,
) -> None:
    site = Site(150, pause_s=0.01)

    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            await until(client, id, has_items(20))
            assert (await client.steer(id, "pause")).state == "paused"
            assert fleet.kill("master")
            await asyncio.sleep(0.5)
            await fleet.until_ready()
            assert (await client.crawl(id)).state == "paused"
            assert fleet.kill("worker")
            async with asyncio.timeout(60):
                while (await client.task(id)).status != "paused":
                    await asyncio.sleep(0.1)
            await fleet.until_ready(nodes=2)
            # Time for a node that is free and able to begin with it.
            await asyncio.sleep(2)
            assert (await client.task(id)).status == "paused"
            assert len(await client.executions(id)) == 1
            await client.steer(id, "resume")
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await titles(client, id) == site.truth()

    with site.served(), running(fleet_in(tmp_path / "fleet")) as fleet:
        asyncio.run(scene(fleet))


@pytest.mark.parametrize(
    ("frontier", "words"),
    [
        ("node", "the crawl waits to hand over its output"),
        ("master", "the crawl waits for its frontier"),
    ],
)
def test_storage_that_cannot_be_written_is_waited_for(
    tmp_path: Path, frontier: str, words: str
) -> None:
    site = Site(40, pause_s=0.01)
    storage = tmp_path / "storage"
    storage.write_text("a file, where a folder should be")

    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            id = await submit(client, parameters(site, frontier=frontier))
            lines: list[str] = []
            async with asyncio.timeout(60):
                while not lines:
                    await asyncio.sleep(0.1)
                    lines = [line.message async for line in client.task_logs(id, level="warning")]
            assert lines == [words]
            assert (await client.task(id)).status == "processing"

            storage.unlink()
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await titles(client, id) == site.truth()
            assert len(await client.executions(id)) == 1

    output = {"CRAWLFLEET_OUTPUT_DIR": str(storage)}
    with site.served(), running(fleet_in(tmp_path / "fleet", **output)) as fleet:
        asyncio.run(scene(fleet))
