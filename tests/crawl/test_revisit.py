"""Going through a finished crawl again: unchanged pages cost little, and the output is renewed."""

import csv
import gzip
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import Asked, Command, OddSite, lines, odd_site

pytestmark = pytest.mark.slow
FAST = ("--fast", "--quiet")
NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\n\r\n"


@pytest.fixture
def site() -> Iterator[OddSite]:
    with odd_site() as site:
        yield site


def tagged(site: OddSite, path: str, *links: str, title: str = "", tag: str = '"1"') -> None:
    """A page that answers conditions with the entity tag."""
    site.page(path, *links, title=title, headers=[f"ETag: {tag}"])
    whole = site.answers[path]

    def give(asked: Asked) -> bytes:
        return NOT_MODIFIED if asked.headers.get("if-none-match") == tag else whole

    site.answers[path] = give


def shop(site: OddSite) -> None:
    tagged(site, "/", "/same", "/changing", "/vanishing", "/failing", "/dated", "/moving")
    tagged(site, "/same", "/deep")
    tagged(site, "/deep")
    tagged(site, "/changing")
    tagged(site, "/vanishing")
    tagged(site, "/failing")
    tagged(site, "/moving")
    date = "Sun, 01 Nov 2026 00:00:00 GMT"
    site.page("/dated", headers=[f"Last-Modified: {date}"])
    dated = site.answers["/dated"]
    site.answers["/dated"] = lambda asked: (
        NOT_MODIFIED if asked.headers.get("if-modified-since") == date else dated
    )


def change(site: OddSite) -> None:
    tagged(site, "/changing", "/new", title="changed", tag='"2"')
    tagged(site, "/new")
    site.answers["/vanishing"] = reply(b"", status="410 Gone")
    site.answers["/failing"] = reply(b"", status="403 Forbidden")
    site.answers["/moving"] = reply(b"", "Location: /new", status="301 Moved Permanently")


def titles(found: list[dict[str, str]]) -> list[str]:
    return sorted(item["title"] for item in found)


BEFORE = sorted(["/", "/same", "/changing", "/vanishing", "/failing", "/dated", "/moving", "/deep"])
AFTER = sorted(["/", "/same", "changed", "/failing", "/dated", "/deep", "/new"])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_has_changed_is_replaced_and_the_rest_is_kept(
    site: OddSite, tmp_path: Path, workers: str
) -> None:
    shop(site)
    command = Command(tmp_path, site.url("/"), *FAST, "--workers", workers)
    assert command.run()[0] == 0
    assert titles(lines(command.output)) == BEFORE
    change(site)
    site.asked.clear()
    summary = tmp_path / "summary.json"
    code, said = command.run("--revisit", "--summary", str(summary))

    assert code == 0, said
    assert titles(lines(command.output)) == AFTER
    told = json.loads(summary.read_text())
    assert told["outcomes"] == {
        "not_modified": 4,
        "ok": 2,
        "client_error": 1,
        "blocked": 1,
        "redirect": 1,
    }
    assert told["items"] == len(AFTER)
    place = str(command.output)
    size = command.output.stat().st_size
    assert told["output"] == {place: {"path": place, "items": len(AFTER), "bytes": size}}
    asked = {each.path: each.headers.get("if-none-match") for each in site.asked}
    assert (asked["/deep"], asked["/new"], asked["/changing"]) == ('"1"', None, '"1"')
    assert len(site.asked) == len(BEFORE) + 1
    assert [path.name for path in command.output.parent.iterdir()] == ["items.jsonl"]

    # Nothing has changed since; the round before this one is forgotten.
    site.asked.clear()
    assert command.run("--revisit")[0] == 0
    assert titles(lines(command.output)) == AFTER
    conditional = [each for each in site.asked if "if-none-match" in each.headers]
    assert {each.path for each in conditional} == {"/", "/same", "/changing", "/deep", "/new"}


def test_a_finished_crawl_is_left_alone_without_the_option(site: OddSite, tmp_path: Path) -> None:
    shop(site)
    command = Command(tmp_path, site.url("/"), "--fast")
    command.run()
    site.asked.clear()
    code, said = command.run()

    assert (code, site.asked) == (0, [])
    assert "--revisit" in said


@pytest.mark.usefixtures("interruptible")
def test_the_file_is_the_old_one_until_the_round_is_finished(site: OddSite, tmp_path: Path) -> None:
    shop(site)
    command = Command(tmp_path, site.url("/"), *FAST)
    command.run()
    before = command.output.read_bytes()
    change(site)
    busy = reply(b"", "Retry-After: 3600", status="503 Busy")
    late, site.answers["/deep"] = site.answers["/deep"], busy

    for ending in (signal.SIGINT, signal.SIGKILL):
        site.asked.clear()
        with command.start("--revisit") as process:
            until = time.monotonic() + 30
            while not site.asked and time.monotonic() < until and ending is signal.SIGINT:
                time.sleep(0.02)
            time.sleep(1.0)
            os.killpg(process.pid, ending)
            process.communicate(timeout=30)
        assert command.output.read_bytes() == before

    # It goes on, and waits for what the site asked for; that is over now.
    site.answers["/deep"] = late
    code, said = command.run("--revisit", "--max-seconds", "1")
    assert code == 3, said
    assert command.output.read_bytes() == before


def test_an_interrupted_round_goes_on_with_or_without_the_option(
    site: OddSite, tmp_path: Path
) -> None:
    names = [f"/{number}" for number in range(40)]
    tagged(site, "/", *names)
    for name in names:
        tagged(site, name)
    slow = ("--fast", "--quiet", "--delay", "0.05", "--concurrency", "1")
    command = Command(tmp_path, site.url("/"), *slow)
    assert command.run()[0] == 0
    for name in names[::2]:
        tagged(site, name, title=f"new {name}", tag='"2"')
    for options in (["--revisit"], [], ["--revisit"]):
        before = len(site.asked)
        with command.start(*options) as process:
            while len(site.asked) < before + 8 and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.communicate()
    assert command.run()[0] == 0

    wanted = ["/", *names[1::2], *(f"new {name}" for name in names[::2])]
    assert titles(lines(command.output)) == sorted(wanted)


def test_pages_that_were_not_reached_in_this_round_keep_their_items(
    site: OddSite, tmp_path: Path
) -> None:
    """`--max-pages` ends a round early: what was not looked at stands."""
    names = [f"/{number}" for number in range(6)]
    tagged(site, "/", *names)
    for name in names:
        tagged(site, name)
    limits = ("--fast", "--quiet", "--concurrency", "1", "--max-pages", "7")
    command = Command(tmp_path, site.url("/"), *limits)
    assert command.run()[0] == 0
    tagged(site, "/", "/another", *names, tag='"2"')
    tagged(site, "/another")
    for _ in range(2):
        code, said = command.run("--revisit")
        assert code == 0, said

    assert set(titles(lines(command.output))) >= {"/", *names}


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl.zst"])
def test_every_kind_of_file_is_renewed(site: OddSite, tmp_path: Path, ending: str) -> None:
    shop(site)
    tagged(site, "/same", "/deep", title='two "quoted", and more')
    command = Command(tmp_path, site.url("/"), *FAST)
    command.output = place = command.output.with_name(f"items.{ending}")
    command.replace_output(["-o", str(place)])
    assert command.run()[0] == 0
    change(site)
    code, said = command.run("--revisit")

    assert code == 0, said
    wanted = sorted([*AFTER, 'two "quoted", and more'])
    wanted.remove("/same")
    assert titles(read(place)) == wanted
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def read(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        from crawlfleet import zstd

        data = zstd.decompress(data)
    text = data.decode()
    if ".csv" in path.name:
        return [dict(row) for row in csv.DictReader(text.splitlines(keepends=True))]
    return [json.loads(line) for line in text.splitlines()]


def test_a_table_and_an_archive_are_renewed_too(site: OddSite, tmp_path: Path) -> None:
    shop(site)
    command = Command(tmp_path, site.url("/"), *FAST)
    database, archive = tmp_path / "shop.db", tmp_path / "out" / "pages.warc.gz"
    command.replace_output(["-o", f"sqlite:///{database}?table=goods", "-o", str(archive)])
    assert command.run()[0] == 0
    change(site)
    code, said = command.run("--revisit")
    assert code == 0, said

    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT fields FROM goods").fetchall()
        ((crawls,),) = connection.execute("SELECT count(*) FROM crawlfleet_output").fetchall()
    assert titles([json.loads(fields) for (fields,) in rows]) == AFTER
    assert crawls == 1
    with archive.open("rb") as file:
        pages = [
            record.rec_headers.get_header("WARC-Target-URI")
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        ]
    # An archive says what was when: the first round, and what the second one was sent.
    assert len(pages) == len(BEFORE) + 2


def test_what_cannot_be_revisited_is_said_and_left_alone(site: OddSite, tmp_path: Path) -> None:
    shop(site)
    command = Command(tmp_path, site.url("/"), "--fast")
    command.run()
    before = command.output.read_bytes()

    code, said = command.run("--revisit", "--fresh")
    assert code == 2
    assert "--fresh forgets" in said

    code, said = Command(tmp_path, site.url("/"), "--fast", "--depth", "1").run("--revisit")
    assert code == 1
    assert "other options" in said

    command.output.write_bytes(before + b"{}\n")
    code, said = command.run("--revisit")
    assert code == 1
    assert "not as the last run left it" in said
    assert command.output.read_bytes() == before + b"{}\n"


def test_the_first_run_may_be_a_revisit(site: OddSite, tmp_path: Path) -> None:
    """So that a line of a crontab is always the same."""
    shop(site)
    command = Command(tmp_path, site.url("/"), *FAST)
    for _ in range(3):
        code, said = command.run("--revisit")
        assert code == 0, said
    assert titles(lines(command.output)) == BEFORE
