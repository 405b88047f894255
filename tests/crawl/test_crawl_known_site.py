"""Whole crawls of a site that is known: each page within the depth once, and every item."""

from pathlib import Path

import pytest

from crawlfleet.model.crawl.parameters import Limits, Scope
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl.crawling import POLITE, crawl, told, truth, visits

pytestmark = pytest.mark.slow

SITE = SiteSpec(pages=250, hosts=4, links=12, page_bytes=1500, latency_ms=15, failing=0.06)


def within(spec: SiteSpec, depth: int | None) -> list[int]:
    return [page for page, far in spec.distances().items() if depth is None or far <= depth]


@pytest.mark.parametrize("depth", [0, 1, 2, 3, None])
def test_exactly_the_pages_within_the_depth_are_visited(tmp_path: Path, depth: int | None) -> None:
    with ServedSite(SITE) as site:
        crawled = crawl(tmp_path, site.spec.url(0), depth=depth)

        expected = within(site.spec, depth)
        assert visits(site) == {page: 1 + site.spec.fails_first(page) for page in expected}
        assert told(crawled.items) == truth(site.spec, expected)
        assert crawled.summary.finished
        assert crawled.summary.pages == len(expected)
        assert crawled.summary.items == len(crawled.items)


def test_redirects_cost_a_request_and_no_depth(tmp_path: Path) -> None:
    spec = SiteSpec(pages=150, hosts=3, links=12, page_bytes=1500, moved=0.3)
    with ServedSite(spec) as site:
        crawled = crawl(tmp_path, site.spec.url(0), depth=2)

        expected = within(site.spec, 2)
        moved = sum(site.spec.is_moved(page) for page in expected)
        assert visits(site) == dict.fromkeys(expected, 1)
        assert told(crawled.items) == truth(site.spec, expected)
        assert crawled.summary.pages == len(expected)
        assert moved - 1 <= crawled.summary.outcomes["redirect"] <= moved


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, None])
def test_two_processes_find_the_same(tmp_path: Path, depth: int | None) -> None:
    with ServedSite(SITE) as site:
        crawled = crawl(tmp_path, site.spec.url(0), depth=depth, workers=2)

        expected = within(site.spec, depth)
        assert visits(site) == {page: 1 + site.spec.fails_first(page) for page in expected}
        assert told(crawled.items) == truth(site.spec, expected)


@pytest.mark.parametrize(
    ("most", "workers"), [(1, 1), (37, 1), (100, 1), pytest.param(37, 2, marks=pytest.mark.slow)]
)
def test_as_many_pages_as_are_asked_for_and_no_more(
    tmp_path: Path, most: int, workers: int
) -> None:
    with ServedSite(SITE) as site:
        crawled = crawl(tmp_path, site.spec.url(0), limits=Limits(max_pages=most), workers=workers)

        assert crawled.summary.finished
        assert crawled.summary.pages == most
        fetched = visits(site)
        answered = sum(count - site.spec.fails_first(page) for page, count in fetched.items())
        assert answered == most
        good = [page for page, count in fetched.items() if count > site.spec.fails_first(page)]
        assert told(crawled.items) == truth(site.spec, good)


def test_a_limit_beyond_the_site_ends_with_all_of_it(tmp_path: Path) -> None:
    with ServedSite(SITE) as site:
        crawled = crawl(tmp_path, site.spec.url(0), limits=Limits(max_pages=5000))

        assert crawled.summary.finished
        assert crawled.summary.pages == SITE.pages


def test_the_scope_and_expressions_keep_pages_out(tmp_path: Path) -> None:
    with ServedSite(SITE) as site:
        spec = site.spec
        scope = Scope(within="host", deny=(r"/p/\d*[26]\.html",))
        crawled = crawl(tmp_path, spec.url(0), scope=scope)

        def belongs(page: int) -> bool:
            return page % spec.hosts == 0 and page % 10 not in (2, 6)

        expected, ahead = {0}, [0]
        while ahead:
            new = {t for t in spec.targets(ahead.pop()) if belongs(t)} - expected
            expected |= new
            ahead += new
        assert set(visits(site)) == expected
        assert told(crawled.items) == truth(spec, sorted(expected))
        assert crawled.summary.rejected["within"] > 0
        assert crawled.summary.rejected["deny"] > 0


def test_only_what_is_allowed_is_followed(tmp_path: Path) -> None:
    with ServedSite(SITE) as site:
        crawl(tmp_path, site.spec.url(0), scope=Scope(within="any", allow=(r"/p/\d\.html",)))

        assert set(visits(site)) == set(range(10))


def test_robots_txt_is_fetched_once_a_host(tmp_path: Path) -> None:
    with ServedSite(SITE) as site:
        crawl(tmp_path, site.spec.url(0), politeness=POLITE)

        asked = [hit.host for hit in site.hits() if hit.page == -1]
        assert sorted(asked) == [0, 1, 2, 3]
