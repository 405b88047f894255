"""What people are shown of a crawl: its speed from the first line on, its hosts at the end."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from crawlfleet.cli.crawl_display import Display
from crawlfleet.cli.crawl_sight import Sight
from crawlfleet.crawl.desk import HostMeasure
from crawlfleet.crawl.teller import Teller
from crawlfleet.model.frontier import HostFigures


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


def test_a_crawl_that_goes_on_has_a_speed_in_its_first_line(monkeypatch: Any) -> None:
    clock = [100.0]
    monkeypatch.setattr("crawlfleet.cli.crawl_display.time.monotonic", lambda: clock[0])
    display = Display(quiet=False)
    display._rate(Sight(pages=5000))
    clock[0] += 10.0
    assert display._rate(Sight(pages=5100)) == 10.0
