"""What people see in a terminal while a fleet works: of its start, of crawls and of tasks."""

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlfleet.testing.demo_shop import PRODUCTS, ServedShop
from tests.cli.terminal import (
    CTRL_C,
    Terminal,
    ending,
    figures,
    pages_beyond,
    program,
    surroundings,
)
from tests.support.local_fleet import LocalFleet, free_port, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("progress on fleets")]

PAGES = 50
WANTED = ("--item=div.product", "--css=title=h2.title")


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with ServedShop() as shop:
        yield shop.url


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    settings = {"CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true", "CRAWLFLEET_HEALTH_CPU_LIMIT": "1"}
    made = LocalFleet(tmp_path_factory.mktemp("fleet"), workers=1, **settings)
    with running(made) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


def beyond(pattern: str, least: int) -> Callable[[str], int | None]:
    """The number that the pattern finds, once it is greater than that."""

    def seen(screen: str) -> int | None:
        found = [int(each) for each in re.findall(pattern, screen)]
        assert len(found) < 2, f"it is seen twice:\n{screen}"
        return found[0] if found and found[0] > least else None

    return seen


def test_a_crawl_on_a_fleet_shows_how_far_it_is(
    shop: str, fleet: LocalFleet, tmp_path: Path
) -> None:
    items = tmp_path / "items.jsonl"
    # The fleet sends figures once a second.
    pace = ("--allow-private", "--delay=0.1", f"--max-pages={PAGES}")
    there = ("--fleet", "--data", str(fleet.folder), "--key", fleet.key)
    words = program("crawl", shop, *WANTED, *pace, *there, "-o", str(items))
    with Terminal(words, columns=80, environment=surroundings(str(tmp_path))) as terminal:
        terminal.until(lambda screen: "on the fleet it is task-" in screen)
        soon = terminal.until(pages_beyond(0))
        middle = terminal.until(pages_beyond(soon))
        later = terminal.until(pages_beyond(middle))
        assert soon < middle < later
        assert terminal.end() == 0

    told = ending(terminal.screen)
    assert figures(terminal.screen) is None
    assert told["pages"].startswith(f"{PAGES} of ")
    assert told["items"] == str(len(items.read_text().splitlines()))


def test_waiting_shows_how_many_have_ended(fleet: LocalFleet, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    tasks = [
        {"task_type": "sleep", "parameters": {"seconds": each}} for each in (0.5, 1, 1.5, 2, 2.5)
    ]
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    where = ("--data", str(fleet.folder), "--key", fleet.key)
    words = program("submit", "--file", str(file), "--wait", *where)
    with Terminal(words, columns=60, environment=surroundings(str(tmp_path))) as terminal:
        ended = r"(?m)^waiting .* (\d)/5 0:0"
        soon = terminal.until(beyond(ended, -1))
        middle = terminal.until(beyond(ended, soon))
        terminal.until(beyond(ended, middle))
        assert terminal.end() == 0
    assert terminal.screen.endswith("5 completed")
    assert len(re.findall(r"task-\w+ +completed +-", terminal.screen)) == 5
    assert "waiting" not in terminal.screen


def test_a_fleet_shows_what_it_does(tmp_path: Path) -> None:
    words = program("up", "--demo", "--workers", "1", "--data", str(tmp_path / "data"))
    words += ["--port", str(free_port())]
    with Terminal(words, columns=60, environment=surroundings(str(tmp_path))) as terminal:
        terminal.until(lambda screen: "starting a fleet" in screen)
        terminal.until(lambda screen: "crawlfleet is up" in screen)
        completed = r"(?m)^tasks .* completed\s+(\d+)"
        soon = terminal.until(beyond(completed, 0))
        assert terminal.screen.count("Running now") == 1
        middle = terminal.until(beyond(completed, soon))
        assert terminal.until(beyond(completed, 65)) == 66 > middle
        assert "online" in terminal.screen
        terminal.press(CTRL_C)
        assert terminal.end() == 0


def test_reading_an_archive_shows_how_far_it_is(tmp_path: Path) -> None:
    archive = tmp_path / "pages.warc.gz"
    body = "".join(f'<div class="product"><h2 class="title">{p.title}</h2></div>' for p in PRODUCTS)
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><body>{body}".encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://shop.example/\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n"
    )
    pages = 500
    archive.write_bytes(gzip.compress(head.encode() + answer + b"\r\n\r\n") * pages)
    items = tmp_path / "items.jsonl"
    words = program("extract", str(archive), *WANTED, "-o", str(items))
    with Terminal(words, columns=80, environment=surroundings(str(tmp_path))) as terminal:
        read = r"(?m)^reading: \d+ items? of (\d+) pages?"
        soon = terminal.until(beyond(read, -1))
        middle = terminal.until(beyond(read, soon))
        later = terminal.until(beyond(read, middle))
        assert later <= pages
        assert terminal.end() == 0
    assert f"\n{pages * len(PRODUCTS)} items of {pages} pages, written to" in terminal.screen
    assert "reading:" not in terminal.screen
    assert json.loads(items.read_text().splitlines()[-1])["kind"] == "items"
