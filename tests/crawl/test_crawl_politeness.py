"""Manners as the sites see them: the server's own log is the judge."""

import asyncio
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from crawling import POLITE, crawl, odd_site, parameters_for, visits

from crawlfleet.crawl.local import local_crawl
from crawlfleet.model.crawl import Politeness
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec
from crawlfleet.testing.zoo.animal import reply

pytestmark = pytest.mark.slow

NOISE_S = 0.06
"""The server reads its clock when a busy machine lets it: one request may seem late, not all."""


def assert_apart(times: list[float], wanted: float) -> None:
    """No two nearer than that, and not all of them a little nearer."""
    assert min(b - a for a, b in pairwise(times)) >= wanted - NOISE_S
    assert times[-1] - times[0] >= (len(times) - 1) * wanted - NOISE_S


def by_host(hits: list[Hit]) -> dict[int, list[Hit]]:
    hosts: dict[int, list[Hit]] = {}
    for hit in hits:
        hosts.setdefault(hit.host, []).append(hit)
    return hosts


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_no_host_is_asked_sooner_than_it_wants(tmp_path: Path, workers: int) -> None:
    """Pages, retries, redirects and robots.txt alike."""
    delays = tuple(0.2 + 0.1 * (host % 4) if host % 5 else 0.0 for host in range(20))
    spec = SiteSpec(
        pages=120,
        hosts=20,
        page_bytes=1500,
        latency_ms=30,
        crawl_delay_s=delays,
        failing=0.1,
        moved=0.1,
    )
    politeness = Politeness(delay_s=0.1, adaptive=False, retry_delay_s=0.1)
    with ServedSite(spec) as site:
        crawled = crawl(tmp_path, site.spec.url(0), politeness=politeness, workers=workers)

        assert crawled.summary.pages == spec.pages
        hosts = by_host(site.hits())
        assert len(hosts) == spec.hosts
        for host, hits in hosts.items():
            wanted = max(delays[host], politeness.delay_s)
            assert hits[0].page == -1, "robots.txt comes first"
            assert_apart([hit.at for hit in hits], wanted)
            assert max(hit.busy for hit in hits) == 1


def test_no_more_requests_at_once_than_allowed(tmp_path: Path) -> None:
    spec = SiteSpec(pages=200, hosts=3, page_bytes=1500, latency_ms=60)
    politeness = msgspec.structs.replace(POLITE, concurrency=3)
    with ServedSite(spec) as site:
        crawl(tmp_path, site.spec.url(0), politeness=politeness)

        most = {host: max(hit.busy for hit in hits) for host, hits in by_host(site.hits()).items()}
        assert set(most.values()) == {3}


def test_a_site_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    spec = SiteSpec(pages=60, hosts=6, page_bytes=1500, failing=0.12, retry_after_s=1)
    with ServedSite(spec) as site:
        failing = [page for page in range(spec.pages) if site.spec.fails_first(page)]
        assert failing
        crawl(tmp_path, site.spec.url(0), politeness=msgspec.structs.replace(POLITE, concurrency=1))

        assert visits(site) == {page: 1 + (page in failing) for page in range(spec.pages)}
        for hits in by_host(site.hits()).values():
            refused: set[int] = set()
            for before, after in pairwise(hits):
                if before.page in failing and before.page not in refused:
                    refused.add(before.page)
                    assert after.at - before.at >= 1.0 - NOISE_S


def test_manners_survive_a_death(tmp_path: Path) -> None:
    """A process that is killed right after a request has written nothing down of it."""
    spec = SiteSpec(pages=40, hosts=2, page_bytes=1500, crawl_delay_s=(0.6, 0.6))
    politeness = Politeness(delay_s=0.0, adaptive=False)
    with ServedSite(spec) as site:
        parameters = parameters_for(tmp_path, site.spec.url(0), politeness=politeness)

        async def live_for(seconds: float) -> None:
            crawl = local_crawl(parameters, frontier=tmp_path / "frontier.db")
            living = asyncio.create_task(crawl.run(asyncio.Event()))
            await asyncio.sleep(seconds)
            living.cancel()
            await asyncio.wait([living])

        for _ in range(4):
            asyncio.run(live_for(1.6))

        for hits in by_host(site.hits()).values():
            assert_apart([hit.at for hit in hits], 0.6)


def test_a_robots_txt_elsewhere_uses_a_slot_of_that_host(tmp_path: Path) -> None:
    at: list[float] = []
    with odd_site() as site:

        def elsewhere(asked: object) -> bytes:
            at.append(asyncio.get_event_loop().time())
            return reply(b"User-agent: *\nAllow: /\n", content_type="text/plain")

        def here(asked: object) -> bytes:
            where = f"Location: {site.url('/their-robots.txt', 2)}"
            return reply(b"", where, status="301 Moved Permanently")

        site.answers["/robots.txt"] = lambda asked: (
            here(asked) if asked.host == "127.0.0.1" else elsewhere(asked)
        )
        site.answers["/their-robots.txt"] = elsewhere
        site.page("/", site.url("/there", 2))
        site.page("/there")
        site.answers["/there"] = _timed(at, site.answers["/there"])
        politeness = Politeness(delay_s=0.4, adaptive=False)
        crawled = crawl(tmp_path, site.url("/"), politeness=politeness)

        assert crawled.summary.pages == 2
        assert len(at) == 3
        assert_apart(at, 0.4)


def _timed(at: list[float], answer: bytes) -> object:
    def give(asked: object) -> bytes:
        at.append(asyncio.get_event_loop().time())
        return answer

    return give
