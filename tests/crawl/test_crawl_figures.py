"""What people are shown of a crawl: its speed from the first line on, its hosts at the end."""

from typing import Any

from crawlfleet.cli.crawl_display import Display
from crawlfleet.cli.crawl_sight import Sight, sight_of
from crawlfleet.crawl.desk import Figures, HostMeasure
from crawlfleet.crawl.run import Progress
from crawlfleet.crawl.teller import Teller
from crawlfleet.model.crawl_notes import Notes, Spent, Totals
from crawlfleet.model.frontier import FrontierCounts, HostFigures


def progress(pages: int, *, now: int | None = None) -> Progress:
    """Of a crawl with so many pages, of which so many were read `now`, in the life that goes on,
    in two seconds."""
    now = pages if now is None else now
    figures = Figures()
    figures.pages = figures.requests = now
    figures.hosts["shop"] = HostMeasure(requests=now, seconds=1.0)
    return Progress(
        counts=FrontierCounts(
            known=pages,
            waiting=0,
            leased=0,
            done=pages,
            pages=pages,
            outcomes={"ok": pages},
            depths={0: 1},
        ),
        totals=Totals(items=3 * pages, spent=Spent(requests=pages + 1, bytes=9)),
        part=Notes(items=3 * now, pages=now, urls=now),
        figures=figures,
        elapsed_s=2.0,
    )


def host(done: int, waiting: int) -> HostFigures:
    return HostFigures(host="shop", waiting=waiting, leased=0, done=done, failures=0, next_at=0.0)


def test_the_hosts_of_a_finished_crawl_are_those_at_its_end() -> None:
    teller = Teller()
    teller.figures(progress(2), [host(2, 7)], is_paused=False, now=100.0)
    final = teller.figures(progress(9), [host(9, 0)], is_paused=False, is_final=True, now=103.0)
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


def test_a_crawl_that_goes_on_has_a_speed_in_its_first_line(monkeypatch: Any) -> None:
    clock = [100.0]
    monkeypatch.setattr("crawlfleet.cli.crawl_display.time.monotonic", lambda: clock[0])
    display = Display(quiet=False)
    display._rate(Sight(pages=5000))
    clock[0] += 10.0
    assert display._rate(Sight(pages=5100)) == 10.0
