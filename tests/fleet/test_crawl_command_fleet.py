"""`crawlfleet crawl` on a real fleet: the same command, files, summary and exit codes as here."""

import asyncio
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.crawl.engine.crawl import Summary
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl_figures import assert_summary, truth_of
from tests.fleet.crawls_on_fleets import has_ended, until
from tests.support.local_fleet import LocalFleet, running
from tests.unread_errors import check_told

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("crawl command on a fleet"),
]
SITE = SiteSpec(pages=120, hosts=4, links=10, page_bytes=1500, latency_ms=5)
ITEM = "div.product"
FIELDS = {"title": "h2.title", "price": "span.price"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    # A machine that is busy with other tests would get no second crawl.
    settings = {"CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true", "CRAWLFLEET_HEALTH_CPU_LIMIT": "1"}
    made = LocalFleet(folder, workers=2, **settings)
    with running(made) as fleet:
        asyncio.run(fleet.until_ready(nodes=2))
        yield fleet


@pytest.fixture
def site() -> Iterator[ServedSite]:
    with ServedSite(SITE) as site:
        yield site


class Command:
    """`crawlfleet crawl` for a fleet, with a home of its own."""

    def __init__(self, folder: Path, fleet: LocalFleet, site: ServedSite, *options: str) -> None:
        self.folder = folder / "out"
        self.folder.mkdir(exist_ok=True)
        self.output = self.folder / "items.jsonl"
        self.home = folder / "home"
        fields = [f"--css={name}={selector}" for name, selector in FIELDS.items()]
        fields.append(f"--item={ITEM}")
        self._words = [sys.executable, "-m", "crawlfleet", "crawl", site.spec.url(0), *fields]
        self._words += ["--scope=any", "--allow-private", *options]
        self._access = ["--master", fleet.url, "--key", fleet.key]

    def start(self, *more: str) -> subprocess.Popen[str]:
        places = [] if "-o" in more else ["-o", str(self.output)]
        return subprocess.Popen(
            [*self._words, *self._access, *places, *more],
            env={**os.environ, "XDG_STATE_HOME": str(self.home), "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *more: str) -> tuple[int, str, str]:
        """Exit code, answer and all that was said beside it."""
        with self.start(*more) as process:
            answer, said = process.communicate(timeout=120)
        check_told(said, by="the command")
        return process.returncode, answer, said


def found(path: Path) -> list[tuple[str, str]]:
    items = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted((item["title"], item["price"]) for item in items)


def truth(site: ServedSite) -> list[tuple[str, str]]:
    pages = site.spec.distances()
    made = (product for page in pages for product in site.spec.products(page))
    return sorted((product.title, product.price) for product in made)


def fetched(site: ServedSite) -> list[int]:
    return sorted(hit.page for hit in site.hits() if hit.page >= 0)


def until_fetched(site: ServedSite, pages: int) -> None:
    deadline = time.monotonic() + 60
    while len(fetched(site)) < pages:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def crawl_id(said: str) -> str:
    return next(word for word in said.split() if word.startswith("task-")).rstrip(";:")


async def view(fleet: LocalFleet, id: str, *, ended: bool = False) -> Any:
    async with fleet.client() as client:
        return await until(client, id, has_ended) if ended else await client.crawl(id)


def test_a_crawl_on_a_fleet_leaves_what_one_here_does(
    fleet: LocalFleet, site: ServedSite, tmp_path: Path
) -> None:
    command = Command(tmp_path, fleet, site, "--fast", "--workers", "2")
    table, archive = command.folder / "items.csv.gz", command.folder / "pages.warc.gz"
    summary = tmp_path / "summary.json"
    places = ["-o", str(command.output), "-o", str(table), "-o", str(archive)]
    code, answer, said = command.run(*places, "--json", "--summary", str(summary))
    assert code == 0, said
    assert found(command.output) == truth(site)
    text = gzip.decompress(table.read_bytes()).decode()
    rows = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert sorted((row["title"], row["price"]) for row in rows) == truth(site)
    with archive.open("rb") as file:
        kinds = [record.rec_type for record in ArchiveIterator(file)]
    assert kinds.count("response") == SITE.pages
    assert sorted(path.name for path in command.folder.iterdir()) == [
        "items.csv.gz",
        "items.jsonl",
        "pages.warc.gz",
    ]
    told = json.loads(answer)
    assert told == json.loads(summary.read_text())
    assert (told["finished"], told["pages"], told["urls"]) == (True, SITE.pages, SITE.pages)
    assert_summary(
        msgspec.json.decode(answer, type=Summary), truth_of(site, len(truth(site)), is_exact=True)
    )
    assert set(told["output"]) == {str(command.output), str(table), str(archive)}
    assert told["task_id"] == crawl_id(said)
    asked = fetched(site)
    assert asked == [*range(SITE.pages)]

    code, _, said = command.run(*places)
    assert (code, "this crawl is finished" in said) == (0, True)
    command.output.unlink()
    table.unlink()
    archive.unlink()
    code, _, said = command.run(*places)
    assert (code, "has done this crawl" in said) == (0, True), said
    assert found(command.output) == truth(site)

    # Somebody else who asks for the same finds it, too; who wants it anew says so.
    other = Command(tmp_path / "home", fleet, site, "--fast", "--workers", "2")
    archive = other.folder / "pages.warc"
    places = ["-o", str(other.output), "-o", str(archive)]
    code, _, said = other.run(*places)
    assert (code, crawl_id(said)) == (0, told["task_id"]), said
    assert fetched(site) == asked
    code, _, said = other.run(*places, "--fresh", "--quiet")
    assert (code, said) == (0, "")
    assert fetched(site) == sorted(asked * 2)
    assert found(other.output) == truth(site)


@pytest.mark.usefixtures("interruptible")
def test_whoever_stops_watching_finds_the_crawl_again(
    fleet: LocalFleet, site: ServedSite, tmp_path: Path
) -> None:
    slow = ("--fast", "--delay", "0.1", "--concurrency", "1")
    command = Command(tmp_path, fleet, site, *slow)
    with command.start() as process:
        until_fetched(site, 10)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    id = crawl_id(said)
    assert f"detached: {id} goes on without you" in said
    assert f"crawlfleet tasks cancel {id}" in said
    assert not [*command.folder.iterdir()]
    assert asyncio.run(view(fleet, id)).state == "processing"

    code, _, said = command.run()
    assert code == 0, said
    assert "going on with" in said
    assert found(command.output) == truth(site)
    assert fetched(site) == [*range(SITE.pages)]


def test_an_interrupt_can_cancel_and_the_same_command_goes_on(
    fleet: LocalFleet, site: ServedSite, tmp_path: Path
) -> None:
    slow = ("--fast", "--delay", "0.05", "--concurrency", "1", "--workers", "2")
    command = Command(tmp_path, fleet, site, *slow)
    with command.start("--cancel-on-interrupt") as process:
        until_fetched(site, 20)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    id = crawl_id(said)
    assert f"{id} is cancelled" in said
    assert asyncio.run(view(fleet, id, ended=True)).state == "cancelled"

    code, _, said = command.run()
    assert code == 0, said
    assert f"{id} was cancelled, and is tried again" in said
    assert found(command.output) == truth(site)
    again = [page for page in range(SITE.pages) if fetched(site).count(page) > 1]
    assert len(again) < SITE.pages // 2, "it goes on, and does not begin anew"


def test_how_it_ended_is_told_as_it_is_here(
    fleet: LocalFleet, site: ServedSite, tmp_path: Path
) -> None:
    barren = Command(tmp_path, fleet, site, "--fast", "--depth", "0", "--header", "X: 1")
    barren._words.remove("--allow-private")
    code, _, said = barren.run("--quiet")
    assert code == 4, said
    assert "no page could be fetched" in said
    assert "--allow-private" in said

    short = Command(tmp_path, fleet, site, "--fast", "--delay", "1", "--max-seconds", "2")
    code, _, said = short.run("-o", str(tmp_path / "short.jsonl"))
    assert code == 3, said
    assert "limits.max_seconds (2) are over" in said
    assert "--fresh crawls anew" in said
    some = found(tmp_path / "short.jsonl")
    assert some
    assert set(some) < set(truth(site))
