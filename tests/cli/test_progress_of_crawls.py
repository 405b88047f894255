"""What people see of a crawl of this machine: in a terminal, and as lines in a pipe."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.testing.demo_shop import ServedShop
from tests.cli.terminal import (
    CTRL_C,
    Terminal,
    ending,
    figures,
    pages_beyond,
    program,
    surroundings,
)
from tests.unread_errors import check_told

pytestmark = pytest.mark.slow

PAGES = 40


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with ServedShop() as shop:
        yield shop.url


def crawl(shop: str, folder: Path, *more: str) -> list[str]:
    """Some pages, for a few seconds, of a shop that has many more."""
    wanted = ("--css=product=div.product", "--css=title=h2.title", "-o", str(folder / "i.jsonl"))
    pace = ("--allow-private", "--delay=0.06", f"--max-pages={PAGES}")
    return program("crawl", shop, *wanted, *pace, *more)


@pytest.mark.parametrize(
    ("columns", "options"), [(80, ()), (50, ()), (80, ("--workers", "2"))], ids=str
)
def test_a_crawl_shows_how_far_it_is(
    shop: str, tmp_path: Path, columns: int, options: tuple[str, ...]
) -> None:
    environment = surroundings(str(tmp_path))
    with Terminal(
        crawl(shop, tmp_path, *options), columns=columns, environment=environment
    ) as terminal:
        terminal.until(lambda screen: "starting" in screen or figures(screen))
        soon = terminal.until(pages_beyond(0))
        middle = terminal.until(pages_beyond(soon))
        assert terminal.screen.startswith(f"crawling {shop}\n")
        later = terminal.until(pages_beyond(middle))
        assert soon < middle < later <= PAGES + 16
        assert terminal.end() == 0

    told = ending(terminal.screen)
    assert figures(terminal.screen) is None
    assert told["pages"].startswith(f"{PAGES} of ")
    assert str(tmp_path / "i.jsonl") in "".join(terminal.screen.split())
    assert told["items"] == str(len((tmp_path / "i.jsonl").read_text().splitlines()))


def test_an_interrupted_crawl_says_that_it_stops_and_goes_on_where_it_was(
    shop: str, tmp_path: Path
) -> None:
    environment = surroundings(str(tmp_path), NO_COLOR="1")
    with Terminal(crawl(shop, tmp_path), columns=80, environment=environment) as terminal:
        before = terminal.until(pages_beyond(9))
        terminal.press(CTRL_C)
        assert terminal.end() == 130
    assert "stopped: " in terminal.screen
    assert "the same command goes on from here" in terminal.screen

    with Terminal(crawl(shop, tmp_path), columns=80, environment=environment) as terminal:
        first = terminal.until(pages_beyond(0))
        assert first >= before
        assert terminal.end() == 0
    assert terminal.screen.startswith("going on with ")


def test_a_crawl_in_a_pipe_writes_lines_from_its_first_second(shop: str, tmp_path: Path) -> None:
    command = crawl(shop, tmp_path, "--json", "--delay=0.2")
    with subprocess.Popen(
        command,
        env=surroundings(str(tmp_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == f"crawling {shop}\n"
        first, second = (process.stderr.readline() for _ in range(2))
        pages = [int(line.partition(" pages, ")[0]) for line in (first, second)]
        assert pages[0] < pages[1]
        rest, answer = process.stderr.read(), process.stdout.read()
    assert process.returncode == 0
    assert json.loads(answer)["pages"] == PAGES
    assert f"\npages     {PAGES} of " in rest
    check_told(rest, by="the crawl")


def test_a_crawl_that_nobody_can_answer_says_for_whom_it_waits(tmp_path: Path) -> None:
    dead = program("crawl", "http://127.0.0.1:9/", "--allow-private", "--css=title=h1")
    environment = surroundings(str(tmp_path))
    with Terminal(
        [*dead, "-o", str(tmp_path / "i.jsonl"), "--max-seconds=60"],
        columns=80,
        environment=environment,
    ) as terminal:
        assert terminal.until(lambda screen: "waiting for http://127.0.0.1:9: failed" in screen)
        assert figures(terminal.screen) == (0, 1, 0)
        terminal.press(CTRL_C)
        assert terminal.end() == 130
