"""What people are shown of a crawl: its speed from the first line on, its hosts at the end."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawlfleet.cli.crawl_display import Display
from crawlfleet.cli.crawl_sight import Sight
from crawlfleet.crawl.desk import HostMeasure
from crawlfleet.crawl.local import local_crawl
from crawlfleet.crawl.teller import Teller
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.frontier import HostFigures
from tests.crawl.crawling import odd_site, parameters_for


def progress(pages: int, **hosts: HostMeasure) -> Any:
    counts = SimpleNamespace(
        pages=pages,
        known=9,
        waiting=0,
        leased=0,
        done=pages,
        outcomes={"ok": pages},
        depths={0: 1},
    )
    figures = SimpleNamespace(
        bytes=1, requests=pages, retries=0, rejected=Counter[str](), hosts=hosts
    )
    return SimpleNamespace(counts=counts, figures=figures)


def summary(pages: int) -> Any:
    return SimpleNamespace(
        pages=pages,
        elapsed_s=2.0,
        items=3,
        bytes=9,
        requests=pages,
        retries=0,
        urls=pages,
        waiting=0,
        outcomes={"ok": pages},
        rejected={},
        depths={0: 1},
        empty_fields={"price": "span.price"},
    )


def host(done: int, waiting: int) -> HostFigures:
    return HostFigures(host="shop", waiting=waiting, leased=0, done=done, failures=0, next_at=0.0)


def test_the_hosts_of_a_finished_crawl_are_those_at_its_end() -> None:
    teller = Teller()
    teller.figures(progress(2), [host(2, 7)], items=0, is_paused=False, now=100.0)
    final = teller.final(summary(9), progress(9).figures, [host(9, 0)], 103.0)
    assert final.empty_fields == {"price": "span.price"}
    assert final.is_final
    assert [(each.pages, each.waiting) for each in final.hosts] == [(9, 0)]


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
    monkeypatch.setattr("crawlfleet.cli.crawl_display.time.monotonic", lambda: clock[0])
    display = Display(quiet=False)
    display._rate(Sight(pages=5000))
    clock[0] += 10.0
    assert display._rate(Sight(pages=5100)) == 10.0
