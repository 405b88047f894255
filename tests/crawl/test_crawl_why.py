"""`crawlfleet crawl … --why URL`: what became of a URL, asked of a crawl that is not running."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.crawl.engine.crawl import UrlAnswer, explain
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.parameters import Limits, Scope
from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import POLITE, Command, Crawled, OddSite, crawl, odd_site

pytestmark = pytest.mark.slow


@pytest.fixture
def site() -> Iterator[OddSite]:
    with odd_site() as site:
        rules = b"User-agent: *\nDisallow: /secret\n"
        site.answers["/robots.txt"] = reply(rules, content_type="text/plain")
        elsewhere = site.url("/", 2)
        site.page("/", "/a", "/broken", "/secret", "/old", elsewhere, "/a?q=1", "/file.pdf")
        site.page("/a", "/deep")
        site.page("/deep", "/deeper")
        site.answers["/broken"] = reply(b"", status="503 Busy")
        site.answers["/old"] = reply(b"", "Location: /a", status="301 Moved Permanently")
        yield site


def why(crawled: Crawled, url: str) -> UrlAnswer:
    frontier = SqliteFrontier(path=crawled.frontier, rules=rules_of(crawled.parameters))
    return asyncio.run(explain(crawled.parameters, frontier, url))


def test_every_fate_of_a_url_is_known(site: OddSite, tmp_path: Path) -> None:
    # A page that is out of order is tried again later; so this crawl is left before its end.
    crawled = crawl(
        tmp_path,
        site.url("/"),
        depth=1,
        scope=Scope(deny=("q=",)),
        politeness=msgspec.structs.replace(POLITE, retry_delay_s=60.0),
        limits=Limits(max_seconds=2.0),
    )
    asked = len(site.asked)

    def record(url: str) -> UrlRecord:
        found = why(crawled, url).record
        assert found is not None
        return found

    def refused_by(url: str) -> str | None:
        return why(crawled, url).refused_by

    seed = record(site.url("/"))
    assert (seed.status, seed.outcome, seed.depth, seed.found_on) == ("done", "ok", 0, None)
    page = record(site.url("/a#part"))
    assert (page.outcome, page.depth, page.attempts) == ("ok", 1, 1)
    assert page.found_on == site.url("/")
    broken = record(site.url("/broken"))
    assert (broken.status, broken.outcome, broken.http_status) == ("waiting", "server_error", 503)
    assert broken.due is not None
    assert broken.due > time.time()
    assert record(site.url("/old")).note == f"to {site.url('/a')}"
    assert record(site.url("/secret")).note == "robots.txt disallows it"

    assert refused_by(site.url("/x", 2)) == "within"
    assert refused_by(site.url("/a?q=1")) == "deny"
    assert refused_by(site.url("/file.pdf")) == "file_type"
    assert refused_by("mailto:me@shop.example") == "address"
    for path in ("/never", "/deep"):
        answer = why(crawled, site.url(path))
        assert (answer.record, answer.refused_by) == (None, None)
        assert "no page has led to it" in answer.why
    assert len(site.asked) == asked, "asking costs no request"


def test_the_command_says_it_line_by_line(site: OddSite, tmp_path: Path) -> None:
    command = Command(tmp_path, site.url("/"), "--fast", "--depth", "1", "--max-seconds", "2")
    command.run()
    code, said = command.run("--why", site.url("/a"))

    assert code == 0
    pairs = (line.split("  ", 1) for line in said.splitlines() if "  " in line)
    told = {name.strip(): value.strip() for name, value in pairs}
    assert said.startswith(site.url("/a"))
    assert told["status"] == "done"
    assert told["outcome"] == "ok"
    assert told["HTTP status"] == "200"
    assert told["depth"] == "1"
    assert told["found on"] == site.url("/")
    assert told["visited"].endswith("UTC")

    code, said = command.run("--why", site.url("/x", 2))
    assert code == 0
    assert "not taken in: it" in said
    assert "(rule `within`)" in said


def test_a_crawl_that_never_was_cannot_be_asked(site: OddSite, tmp_path: Path) -> None:
    command = Command(tmp_path, site.url("/"))
    code, said = command.run("--why", site.url("/"))

    assert code == 1
    assert "no run of this crawl" in said
    assert not command.output.exists()


def test_a_crawl_that_runs_cannot_be_asked_yet(site: OddSite, tmp_path: Path) -> None:
    command = Command(tmp_path, site.url("/"), "--delay", "2")
    with command.start() as running:
        while not site.asked and running.poll() is None:
            time.sleep(0.01)
        code, said = command.run("--why", site.url("/"))
        running.terminate()
        running.communicate()

    assert code == 1
    assert "is running already" in said
