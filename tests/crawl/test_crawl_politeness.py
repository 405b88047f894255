"""Manners as the sites see them: the server's own log is the judge."""

import asyncio
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawlfleet.crawl.engine import crawl as run
from crawlfleet.crawl.engine.local import local_crawl
from crawlfleet.crawl.fetch.dns import Addresses, Names, SystemDirectory
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.politeness.local_limits import Neighbourhood
from crawlfleet.crawl.public_suffixes import bundled
from crawlfleet.model.crawl.parameters import CrawlParameters, Politeness
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec
from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import POLITE, OddSite, crawl, odd_site, parameters_for, visits

pytestmark = pytest.mark.slow

NOISE_S = 0.06
"""The server reads its clock when a busy machine lets it: one request may seem late, not all."""


def assert_apart(times: list[float], wanted: float) -> None:
    """No two nearer than that, and not all of them a little nearer."""
    assert min(b - a for a, b in pairwise(times)) >= wanted - NOISE_S
    assert times[-1] - times[0] >= (len(times) - 1) * wanted - NOISE_S


def assert_retry_after(hits: list[Hit], failing: set[int], wanted: float) -> None:
    """Of one host: after each first answer of a failing page, nothing is asked for a while."""
    refused: set[int] = set()
    for before, after in pairwise(hits):
        if before.page in failing and before.page not in refused:
            refused.add(before.page)
            assert after.at - before.at >= wanted - NOISE_S


def by_host(hits: list[Hit]) -> dict[int, list[Hit]]:
    hosts: dict[int, list[Hit]] = {}
    for hit in hits:
        hosts.setdefault(hit.host, []).append(hit)
    return hosts


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_no_host_is_asked_sooner_than_it_wants(tmp_path: Path, workers: int) -> None:
    """Pages, retries, redirects and robots.txt alike; and a host that asks for time gets it."""
    delays = tuple(0.2 + 0.1 * (host % 4) if host % 5 else 0.0 for host in range(20))
    spec = SiteSpec(
        pages=120,
        hosts=20,
        page_bytes=1500,
        latency_ms=30,
        crawl_delay_s=delays,
        failing=0.1,
        retry_after_s=1,
        moved=0.1,
    )
    politeness = Politeness(delay_s=0.1, adaptive=False, retry_delay_s=0.1)
    with ServedSite(spec) as site:
        failing = {page for page in range(spec.pages) if site.spec.fails_first(page)}
        crawled = crawl(tmp_path, site.spec.url(0), politeness=politeness, workers=workers)

        assert crawled.summary.pages == spec.pages
        hosts = by_host(site.hits())
        assert len(hosts) == spec.hosts
        for host, hits in hosts.items():
            wanted = max(delays[host], politeness.delay_s)
            assert hits[0].page == -1, "robots.txt comes first"
            assert_apart([hit.at for hit in hits], wanted)
            assert max(hit.busy for hit in hits) == 1
            assert_retry_after(hits, failing, 1.0)
        every = Counter(hit.page for hit in site.hits())
        assert {page for page, count in every.items() if page >= 0 and count == 2} == failing
        assert failing, "some were tried again"
        assert every[-1] == spec.hosts
        assert every[-2] == sum(map(site.spec.is_moved, range(spec.pages))) > 0, "some were led on"


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
            assert_retry_after(hits, set(failing), 1.0)


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


def test_walls_are_never_asked_quicker(tmp_path: Path) -> None:
    """After a 429 walls of all kinds answer at once for a while, then the site is back."""
    at: list[float] = []
    challenge = (
        b"<title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x></script>"
    )
    walls = [
        reply(b"no", status="403 Forbidden"),
        reply(challenge),
        reply(b"pay", status="402 Payment Required"),
        reply(b"", status="404 Not Found"),
    ]
    answers = [reply(b"", status="429 Too Many Requests"), *walls, *[reply(b"hello")] * 4]

    def give(asked: object) -> bytes:
        at.append(asyncio.get_event_loop().time())
        return answers[len(at) - 1]

    with odd_site() as site:
        site.page("/", *(f"/{number}" for number in range(len(answers))))
        site.answers |= {f"/{number}": give for number in range(len(answers))}
        politeness = Politeness(delay_s=0.05, retries=0)
        summary = crawl(tmp_path, site.url("/"), politeness=politeness).summary

    counts = {"ok": 5, "blocked": 3, "payment_required": 1, "client_error": 1}
    assert summary.outcomes == counts
    assert_apart(at[:6], 1.0)
    assert at[-1] - at[5] < 2.9


def _timed(at: list[float], answer: bytes) -> object:
    def give(asked: object) -> bytes:
        at.append(asyncio.get_event_loop().time())
        return answer

    return give


class Book(SystemDirectory):
    """Names that are made up, spread over the addresses of an odd site."""

    def __init__(self, addresses: int) -> None:
        super().__init__()
        self._addresses = addresses

    async def look_up(self, host: str) -> Addresses:
        number = int(host.partition(".")[0].removeprefix("h"))
        return Addresses((f"127.0.0.{1 + number % self._addresses}",), 60.0)


def crawl_neighbours(
    folder: Path,
    site: OddSite,
    monkeypatch: pytest.MonkeyPatch,
    hosts: list[str],
    addresses: int,
    **limits: int | None,
) -> list[float]:
    """When each request came, of a crawl of hosts that are asked once a second each."""
    at: list[float] = []
    rules = reply(b"User-agent: *\nAllow: /\n", content_type="text/plain")
    site.answers["/robots.txt"] = _timed(at, rules)
    moved = reply(b"", "Location: /a", status="301 Moved Permanently")
    site.answers["/"] = _timed(at, moved)
    site.page("/a")
    site.answers["/a"] = _timed(at, site.answers["/a"])

    def fetcher_of(parameters: CrawlParameters, *, allow_private: bool) -> Fetcher:
        return Fetcher(
            limits=parameters.limits,
            fetching=parameters.fetching,
            allow_private=allow_private,
            names=Names(Book(addresses)),
        )

    monkeypatch.setattr(run, "fetcher_of", fetcher_of)
    seeds = [f"http://{host}:{site.port}/" for host in hosts]
    politeness = Politeness(delay_s=1.0, adaptive=False, **limits)
    crawled = crawl(folder, *seeds, politeness=politeness)
    assert crawled.summary.pages == len(hosts)
    assert len(at) == 3 * len(hosts)
    return at


def assert_at_most(times: list[float], wanted: float) -> None:
    """No burst, and no more in all. Connections are made in between, each in its own time: on a
    busy machine two requests may come nearer than they were sent."""
    assert times[-1] - times[0] >= (len(times) - 1) * wanted - NOISE_S
    assert min(c - a for a, c in zip(times, times[2:], strict=False)) >= wanted


def test_hosts_of_one_domain_share_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [f"h{number}.shop.example" for number in range(8)]
    with odd_site() as site:
        limits = {"per_domain": 5, "per_address": None}
        at = crawl_neighbours(tmp_path, site, monkeypatch, hosts, 3, **limits)
    assert_at_most(at, 0.2)


def test_hosts_on_one_server_share_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [f"h{number}.shop{number}.example" for number in range(8)]
    with odd_site() as site:
        limits = {"per_domain": 1, "per_address": 5}
        at = crawl_neighbours(tmp_path, site, monkeypatch, hosts, 1, **limits)
    assert_at_most(at, 0.2)


def test_without_these_limits_only_each_host_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [f"h{number}.shop.example" for number in range(8)]
    with odd_site() as site:
        limits = {"per_domain": None, "per_address": None}
        at = crawl_neighbours(tmp_path, site, monkeypatch, hosts, 1, **limits)
    assert at[-1] - at[0] < (len(at) - 1) * 0.2


def test_neighbours_are_asked_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(workers: int) -> tuple[int, int]:
        async def address_of(name: str) -> str:
            return "192.0.2.1"

        neighbourhood = Neighbourhood(
            Politeness(delay_s=0.0, concurrency=2, per_domain=2, per_address=3),
            workers=workers,
            address_of=address_of,
            suffixes=bundled,
            now=time.time,
        )
        busy: Counter[str] = Counter()
        most: Counter[str] = Counter()

        async def ask(domain: str, number: int) -> None:
            turn = neighbourhood.turn(f"https://h{number}.{domain}")
            if not turn.take():
                await turn.wait()
            for key in (domain, "all"):
                busy[key] += 1
                most[key] = max(most[key], busy[key])
            await asyncio.sleep(0.005)
            for key in (domain, "all"):
                busy[key] -= 1
            turn.leave()

        domains = ["a.example", "b.example"]
        for _ in range(2):  # once that all of them are known, a turn can be taken at once
            await asyncio.gather(*(ask(domain, n) for domain in domains for n in range(30)))
        return max(most[domain] for domain in domains), most["all"]

    assert asyncio.run(scenario(1)) == (4, 6)
    assert asyncio.run(scenario(2)) == (2, 3)
    assert asyncio.run(scenario(50)) == (1, 1)
