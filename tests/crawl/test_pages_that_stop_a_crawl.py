"""Whole crawls of sites with pages that took the whole crawl with them once: each ends, has all
other pages, and says what became of that one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import OddSite, crawl, odd_site

pytestmark = pytest.mark.slow

FILLER = b"<p>" + b"tea " * 40_000 + b"</p>"
FORTY_WORDS = b" ".join(b"word%d" % n for n in range(40))
READABLE = {
    "a tag of 40 attributes": b"<p " + FORTY_WORDS + b">x</p>" + FILLER,
    "a tag of 40 attributes, never closed": FILLER + b"<p " + FORTY_WORDS,
    "a script with 40 words": b"<script>if (a <b " + FORTY_WORDS + b")</script>" + FILLER,
    "microdata, nested deep": b"<div itemscope itemprop=x>" * 100_000,
    "microdata, nested deep, small": b"<div itemscope itemprop=x>" * 4_000,
    "microdata that doubles at each level": b"<div itemscope itemprop='x y'>" * 60,
    "json-ld, nested deep": b'<script type="application/ld+json">' + b'{"a":' * 990 + b"1"
    b"}" * 990
    + b"</script>",
    "a megabyte of nested tables": b"<table><tr><td>" * 70_000,
}  # fmt: skip
UNREADABLE = {"200,000 options": b"<select>" + b"<option>" * 200_000}


@pytest.fixture
def site() -> Iterator[OddSite]:
    with odd_site() as site:
        yield site


def crawled(site: OddSite, folder: Path, body: bytes, **options: Any) -> Any:
    site.page("/", "/strange", "/after")
    site.answers["/strange"] = reply(body)
    site.page("/after", "/later")
    site.page("/later")
    return crawl(folder, site.url("/"), structured=True, within_s=240, **options)


@pytest.mark.parametrize("name", READABLE)
def test_a_page_that_stopped_crawls_is_a_page_like_others(
    site: OddSite, tmp_path: Path, name: str
) -> None:
    done = crawled(site, tmp_path, READABLE[name])
    assert done.summary.finished
    assert done.summary.outcomes == {Outcome.OK: 4}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_page_that_takes_too_long_has_an_outcome_of_its_own(
    site: OddSite, tmp_path: Path, name: str
) -> None:
    done = crawled(site, tmp_path, UNREADABLE[name])
    assert done.summary.finished
    assert done.summary.outcomes == {Outcome.OK: 3, Outcome.UNREADABLE: 1}
    assert done.summary.failed == 1
    record = done.record(site.url("/strange"))
    assert record is not None
    assert record.outcome == Outcome.UNREADABLE
    assert "s of CPU" in record.note
