"""Several crawls that touch the same hosts, by one ledger: the server's own log is the judge."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawlfleet.adapters.ledger.memory import MemoryBook
from crawlfleet.core.politeness import ledger as granting
from crawlfleet.crawl.engine.crawl import CrawlRun, Summary
from crawlfleet.crawl.engine.local import local_frontier
from crawlfleet.errors import LedgerUnavailable, Refused
from crawlfleet.model.crawl.parameters import Politeness
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec
from tests.crawl.crawling import parameters_for
from tests.sampling import SOAK

pytestmark = pytest.mark.slow
NOISE_S = 0.15
LONG_AGO = 1000.0


class OldBook(MemoryBook):
    """One that was begun long ago."""

    async def read(self, keys: list[str]) -> object:
        page = await super().read(keys)
        return msgspec.structs.replace(page, born=page.born - LONG_AGO)


class NearLedger:
    """Implements `crawlfleet.ports.ledger.Ledger` on a book of this process."""

    def __init__(self, book: MemoryBook, name: str) -> None:
        self._book, self._name = book, name
        self.asked = 0
        self.begun: Counter[str] = Counter()
        """Windows that did not make another longer, by key."""
        self.late: list[object] = []
        """What kept somebody waiting for longer than a delay."""
        self.trouble: Callable[[], None] = lambda: None

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        self.trouble()
        self.asked += 1
        page = await self._book.read(sorted(granting.keys_of(ask)))
        name = f"{self._name}/{ask.engine}"
        changes, told = granting.exchange(
            page.entries,
            ask,
            name=name,
            now=page.now,
            born=page.born,
            living=lambda _: True,
        )
        assert await self._book.write(page, changes)
        for window in told.windows:
            entry = page.entries.get(window.key, LedgerEntry())
            if not any(hold.name == name and hold.until > page.now for hold in entry.holds):
                self.begun[window.key] += 1
        self.late += told.refusals
        self.late += [each for each in told.windows if each.start_in_s > each.delay_s + 0.01]
        return told


async def run(
    folder: Path, site: ServedSite, ledger: NearLedger, politeness: Politeness, workers: int = 1
) -> Summary:
    folder.mkdir()  # noqa: ASYNC240
    parameters = parameters_for(
        folder, site.spec.url(0), politeness=politeness, sinks=(), workers=workers
    )
    crawl = CrawlRun(
        parameters,
        frontier=local_frontier(parameters, folder / "frontier.db"),
        sinks={},
        allow_private=True,
        ledger=ledger,
    )
    return await crawl.run(asyncio.Event())


async def run_two(
    folder: Path, site: ServedSite, politeness: Politeness, workers: int = 1
) -> list[NearLedger]:
    book = OldBook()
    await book.open()
    ledgers = [NearLedger(book, name) for name in ("a", "b")]
    async with asyncio.timeout(120):
        ended = await asyncio.gather(
            *(
                run(folder / f"c{n}", site, ledger, politeness, workers)
                for n, ledger in enumerate(ledgers)
            )
        )
    assert [each.pages for each in ended] == [site.spec.pages] * 2
    page = await book.browse(1000)
    held = [key for key, entry in page.entries.items() if entry.holds]
    assert not held, "all windows are given back in the end"
    return ledgers


def by_host(hits: list[Hit]) -> dict[int, list[Hit]]:
    hosts: dict[int, list[Hit]] = {}
    for hit in hits:
        hosts.setdefault(hit.host, []).append(hit)
    return hosts


def assert_polite(site: ServedSite, delay_s: float, concurrency: int) -> None:
    for hits in by_host(site.hits()).values():
        times = [hit.at for hit in hits]
        if delay_s:
            # One may seem late to a busy server, not all: then the pause before it seems longer.
            # Without a ledger they nearly meet.
            short = [n for n, (a, b) in enumerate(pairwise(times)) if b - a < delay_s / 2]
            assert len(short) <= 1
            assert all(n == 0 or times[n + 1] - times[n - 1] > delay_s * 1.25 for n in short)
            assert times[-1] - times[0] >= (len(times) - 1) * delay_s - NOISE_S
        assert max(hit.busy for hit in hits) <= concurrency


def test_two_crawls_of_the_same_hosts_ask_them_no_oftener_than_one(tmp_path: Path) -> None:
    politeness = Politeness(delay_s=0.2, adaptive=False, obey_robots=False)
    with ServedSite(SiteSpec(pages=60, hosts=4, page_bytes=1500, latency_ms=20)) as site:
        ledgers = asyncio.run(run_two(tmp_path, site, politeness))
        assert_polite(site, 0.2, 1)
        assert len(site.hits()) == 120
    assert sum(each.asked for each in ledgers) < 240, "windows, and not each fetch"


def test_two_crawls_share_the_concurrency_of_a_host(tmp_path: Path) -> None:
    politeness = Politeness(delay_s=0.0, concurrency=3, adaptive=False, obey_robots=False)
    with ServedSite(SiteSpec(pages=300, hosts=2, page_bytes=1500, latency_ms=50)) as site:
        asyncio.run(run_two(tmp_path, site, politeness))
        assert_polite(site, 0.0, 3)


def test_processes_of_one_crawl_share_a_host_by_the_ledger_too(tmp_path: Path) -> None:
    politeness = Politeness(delay_s=0.15, adaptive=False, obey_robots=False)
    with ServedSite(SiteSpec(pages=40, hosts=4, page_bytes=1500, latency_ms=20)) as site:
        asyncio.run(run_two(tmp_path, site, politeness, workers=2))
        assert_polite(site, 0.15, 1)


def test_retry_after_that_one_crawl_sees_is_held_to_by_the_other(tmp_path: Path) -> None:
    spec = SiteSpec(pages=24, hosts=2, page_bytes=1500, failing=0.2, retry_after_s=1)
    politeness = Politeness(delay_s=0.2, adaptive=False, obey_robots=False, retry_delay_s=0.1)
    with ServedSite(spec) as site:
        failing = {page for page in range(spec.pages) if site.spec.fails_first(page)}
        assert failing
        asyncio.run(run_two(tmp_path, site, politeness))
        for hits in by_host(site.hits()).values():
            refused: set[int] = set()
            for before, after in pairwise(hits):
                if before.page in failing and before.page not in refused:
                    refused.add(before.page)
                    assert after.at - before.at >= 1 - NOISE_S


def test_one_crawl_alone_is_as_quick_as_without_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granting, "ALONE_S", 2.0)  # so that several end
    politeness = Politeness(delay_s=0.1, adaptive=False, obey_robots=False, per_domain=None)

    async def scenario(site: ServedSite) -> NearLedger:
        book = OldBook()
        await book.open()
        ledger = NearLedger(book, "a")
        await run(tmp_path / "c", site, ledger, politeness)
        return ledger

    with ServedSite(SiteSpec(pages=100, hosts=2, page_bytes=1500)) as site:
        ledger = asyncio.run(scenario(site))
        for hits in by_host(site.hits()).values():
            pauses = sorted(b.at - a.at for a, b in pairwise(hits))
            # A busy machine makes some of them longer, and not most.
            assert pauses[len(pauses) // 2] < 0.1 * 2
            assert not SOAK or sum(pauses) < len(hits) * 0.1 * 2
    assert not ledger.late
    # By the ledger, for which the machine must be a second late to end one, and then two.
    assert ledger.begun
    assert max(ledger.begun.values()) <= (1 if SOAK else 2), "a window ended while it had work"
    assert ledger.asked < 60


def test_nothing_is_asked_while_the_ledger_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not SOAK:
        monkeypatch.setattr(granting, "ALONE_S", 3.0)
    politeness = Politeness(delay_s=0.1, adaptive=False, obey_robots=False)
    gone: list[float] = []

    async def scenario(site: ServedSite) -> None:
        book = OldBook()
        await book.open()
        ledger = NearLedger(book, "a")
        crawl = asyncio.create_task(run(tmp_path / "c", site, ledger, politeness))
        await asyncio.sleep(1.0)

        def away() -> None:
            raise LedgerUnavailable("the master is away")

        ledger.trouble = away
        await asyncio.sleep(granting.ALONE_S + 2.0)
        gone.append(len(site.hits()))
        await asyncio.sleep(1.0)
        gone.append(len(site.hits()))
        ledger.trouble = lambda: None
        assert (await crawl).pages == site.spec.pages

    pages = 250 if SOAK else 120
    with ServedSite(SiteSpec(pages=pages, hosts=2, page_bytes=1500)) as site:
        asyncio.run(scenario(site))
    assert gone[0] == gone[1] < pages, "windows were used to their end, and not beyond"


def test_fleet_that_has_no_ledger_any_more_is_crawled_without(tmp_path: Path) -> None:
    politeness = Politeness(delay_s=0.0, adaptive=False, obey_robots=False)

    async def scenario(site: ServedSite) -> None:
        book = OldBook()
        await book.open()
        ledger = NearLedger(book, "a")

        def refuse() -> None:
            raise Refused("this fleet has no ledger")

        ledger.trouble = refuse
        assert (await run(tmp_path / "c", site, ledger, politeness)).pages == site.spec.pages

    with ServedSite(SiteSpec(pages=20, hosts=2, page_bytes=1500)) as site:
        asyncio.run(scenario(site))
