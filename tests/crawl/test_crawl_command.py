"""What `crawlfleet crawl` does with its output and its options, run as people run it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl.crawling import Command, lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> Iterator[ServedSite]:
    with ServedSite(SiteSpec(pages=60, hosts=2, links=8, page_bytes=1500)) as site:
        yield site


def test_a_finished_crawl_is_not_done_twice_unless_fresh(site: ServedSite, tmp_path: Path) -> None:
    command = Command(tmp_path, site.spec.url(0), "--fast", "--scope", "any")
    summary = tmp_path / "summary.json"
    code, said = command.run("--summary", str(summary))
    assert code == 0
    assert "finished" in said
    told = json.loads(summary.read_text())
    assert (told["finished"], told["pages"]) == (True, 60)
    assert told["items"] == len(lines(command.output)) > 0
    assert list(told["output"]) == [str(command.output)]

    asked, first = len(site.hits()), command.output.read_bytes()
    code, said = command.run()
    assert code == 0
    assert "this crawl is finished: 60 pages" in said
    assert len(site.hits()) == asked

    code, said = command.run("--fresh", "--quiet")
    assert (code, said) == (0, "")
    assert len(site.hits()) == 2 * asked
    assert sorted(command.output.read_bytes().splitlines()) == sorted(first.splitlines())
    assert [path.name for path in command.output.parent.iterdir()] == ["items.jsonl"]


def test_another_crawl_into_the_same_file_is_refused(site: ServedSite, tmp_path: Path) -> None:
    Command(tmp_path, site.spec.url(0), "--fast", "--depth", "0").run()
    code, said = Command(tmp_path, site.spec.url(0), "--fast", "--depth", "1").run()

    assert code == 1
    assert "exists already" in said
    assert "--fresh" in said


def test_an_unfinished_crawl_keeps_its_file(site: ServedSite, tmp_path: Path) -> None:
    slow = ("--fast", "--delay", "0.5", "--max-seconds", "1", "--scope", "any")
    code, said = Command(tmp_path, site.spec.url(0), *slow).run()
    assert code == 3
    assert "goes on from here" in said

    code, said = Command(tmp_path, site.spec.url(0), "--fast", "--depth", "1").run()
    assert code == 1
    assert "an unfinished crawl with other options" in said

    # Manners may change: it is the same crawl.
    code, said = Command(tmp_path, site.spec.url(0), "--fast", "--scope", "any").run()
    assert code == 0
    assert "going on with" in said


def test_crawls_into_files_of_the_same_name_do_not_hinder_each_other(
    site: ServedSite, tmp_path: Path
) -> None:
    slow = ("--fast", "--delay", "1", "--scope", "any")
    other = tmp_path / "other"
    other.mkdir()
    command = Command(tmp_path, site.spec.url(0), *slow)
    with command.start() as running:
        while not command.output.exists() and running.poll() is None:
            time.sleep(0.02)
        command.replace_output(["-o", str(other / "items.jsonl")])
        code, said = command.run("--max-pages", "1")
        running.terminate()
        running.communicate()

    assert code == 0, said


def test_a_crawl_that_gets_nothing_says_why_and_can_be_tried_again(
    site: ServedSite, tmp_path: Path
) -> None:
    command = Command(tmp_path, site.spec.url(0), "--fast", "--depth", "0")
    command.allow_private(False)
    code, said = command.run("--quiet")
    assert code == 4
    assert "no page could be fetched" in said
    assert "loopback address" in said
    assert "--allow-private" in said

    command.allow_private(True)
    code, said = command.run("--quiet")
    assert (code, said) == (0, "")


@pytest.mark.parametrize("options", [["--css", "a=b["], ["--allow", "("], ["-o", "x.xml"]])
def test_what_is_wrong_is_told_before_anything_is_left_behind(
    site: ServedSite, tmp_path: Path, options: list[str]
) -> None:
    command = Command(tmp_path, site.spec.url(0), "--fast", "--depth", "0")
    code, said = command.run(*options)
    assert code == 1
    assert "→" in said
    assert not any(command.output.parent.iterdir())

    code, said = command.run()
    assert code == 0, said
