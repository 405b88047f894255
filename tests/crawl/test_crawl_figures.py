"""What people are shown of a crawl: its speed from the first line on, its hosts at the end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.cli.crawl.display import Display
from crawlfleet.cli.crawl.progress import Sight, sight_of
from crawlfleet.crawl.engine.crawl import CrawlProgress
from crawlfleet.crawl.engine.figures import Teller
from crawlfleet.crawl.engine.local import local_crawl
from crawlfleet.crawl.work import HostMeasure, WorkFigures
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import FrontierCounts, HostFigures
from crawlfleet.model.crawl.notes import ExecutionNotes, NoteTotals, Spent
from tests.crawl.crawling import odd_site, parameters_for


def progress(pages: int, *, now: int | None = None) -> CrawlProgress:
    """Of a crawl with so many pages, of which so many were read `now`, in the life that goes on,
    in two seconds."""
    now = pages if now is None else now
    figures = WorkFigures()
    figures.pages = figures.requests = now
    figures.hosts["shop"] = HostMeasure(requests=now, seconds=1.0)
    return CrawlProgress(
        counts=FrontierCounts(
            known=pages,
            waiting=0,
            leased=0,
            done=pages,
            pages=pages,
            outcomes={"ok": pages},
            depths={0: 1},
        ),
        totals=NoteTotals(items=3 * pages, spent=Spent(requests=pages + 1, bytes=9)),
        part=ExecutionNotes(items=3 * now, pages=now, urls=now),
        figures=figures,
        elapsed_s=2.0,
    )


def host(done: int, waiting: int) -> HostFigures:
    return HostFigures(host="shop", waiting=waiting, leased=0, done=done, failures=0, next_at=0.0)


def test_the_hosts_of_a_finished_crawl_are_those_at_its_end() -> None:
    teller = Teller()
    teller.figures(progress(2), [host(2, 7)], is_paused=False, now=100.0)
    final = teller.figures(
        progress(9),
        [host(9, 0)],
        is_paused=False,
        is_final=True,
        now=103.0,
        empty_fields={"price": "span.price"},
    )
    assert final.empty_fields == {"price": "span.price"}
    assert final.is_final
    assert [(each.pages, each.waiting) for each in final.hosts] == [(9, 0)]


def test_figures_are_those_of_all_lives_and_the_speed_is_that_of_this_one() -> None:
    told = Teller().figures(
        progress(1000, now=10), [host(9, 0)], is_paused=False, is_final=True, now=103.0
    )
    assert (told.pages, told.items, told.requests, told.bytes) == (1000, 3000, 1001, 9)
    assert told.rate_per_s == 5.0
    assert told.part is not None
    assert (told.part.pages, told.part.items) == (10, 30)
    sight = sight_of(progress(1000, now=10))
    assert (sight.pages, sight.items) == (1000, 3000)


def test_progress_may_be_asked_for_before_a_crawl_is_open_and_after_its_end(
    tmp_path: Path,
) -> None:
    async def ask(url: str) -> tuple[int, int]:
        crawl = local_crawl(parameters_for(tmp_path, url), frontier=tmp_path / "frontier.db")
        early = asyncio.create_task(crawl.progress())
        await asyncio.sleep(0)
        assert not early.done()
        await crawl.run(asyncio.Event())
        return (await early).counts.known, (await crawl.progress()).counts.pages

    with odd_site() as site:
        site.page("/", "/a")
        site.page("/a")
        known, pages = asyncio.run(ask(site.url("/")))
    assert known >= 1
    assert pages == 2


def test_progress_of_a_crawl_that_cannot_be_opened_waits_for_nothing(tmp_path: Path) -> None:
    async def ask() -> int:
        (tmp_path / "file").touch()
        crawl = local_crawl(
            parameters_for(tmp_path, "http://127.0.0.1:9/"), frontier=tmp_path / "file" / "f.db"
        )
        with pytest.raises(StoreUnavailable):
            await crawl.run(asyncio.Event())
        async with asyncio.timeout(30):
            return (await crawl.progress()).counts.known

    assert asyncio.run(ask()) == 0


def test_a_display_that_fails_says_so_and_the_crawl_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def look() -> Sight:
        raise StoreUnavailable("there is nothing to see")

    async def crawl() -> str:
        async with Display(quiet=False).shown(look, asyncio.Event()):
            await asyncio.sleep(0.01)
            return "done"

    assert asyncio.run(crawl()) == "done"
    told = capsys.readouterr().err
    assert "progress is not shown any more: StoreUnavailable: there is nothing to see" in told
    assert "the crawl goes on" in told


def test_a_crawl_that_goes_on_has_a_speed_in_its_first_line(monkeypatch: Any) -> None:
    clock = [100.0]
    monkeypatch.setattr("crawlfleet.cli.crawl.display.time.monotonic", lambda: clock[0])
    display = Display(quiet=False)
    display._rate(Sight(pages=5000))
    clock[0] += 10.0
    assert display._rate(Sight(pages=5100)) == 10.0
