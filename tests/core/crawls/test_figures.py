"""The figures of a crawl, out of what its frontier says and what executions tell."""

import pytest

from crawlfleet.core.crawls.figures import counted, failed_in, part_of, together
from crawlfleet.model.crawl.figures import CrawlFigures, HostReport, Part, Rate, ToldFigures
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.crawl.notes import (
    NOTES,
    ExecutionNotes,
    NoteTotals,
    Spent,
    notes_in,
    totals_of,
)


def told(done: int, *, part: int = 0, at: float = 1.0, **fields: object) -> ToldFigures:
    """By one who knows the whole crawl, of which it has done a part."""
    whole = {"pages": done, "done": done, "known": done, "items": 2 * done, "requests": done}
    mine = Part(pages=part, items=2 * part)
    return ToldFigures(at=at, part=mine, **(whole | fields))  # type: ignore[arg-type]


def counts(done: int, totals: NoteTotals | None = None) -> FrontierCounts:
    return FrontierCounts(
        known=done + 3,
        waiting=2,
        leased=1,
        done=done,
        pages=done - 1,
        outcomes={"ok": done - 1, "timeout": 1},
        depths={0: 1, 2: done + 2},
        totals=totals,
    )


def test_what_several_tell_of_the_whole_is_not_added_up() -> None:
    whole = together([told(90, part=40, at=9.0), told(100, part=60, at=8.0)])
    assert whole is not None
    assert (whole.pages, whole.done, whole.items, whole.requests) == (100, 100, 200, 100)
    assert whole.at == 9.0
    assert type(whole) is CrawlFigures


def test_those_who_know_their_own_part_alone_are_added_up() -> None:
    spiders = [ToldFigures(pages=3, items=5, requests=4), ToldFigures(pages=4, items=6, bytes=9)]
    whole = together(spiders)
    assert whole is not None
    assert (whole.pages, whole.items, whole.requests, whole.bytes) == (7, 11, 4, 9)
    assert part_of(spiders[0]) == Part(pages=3, items=5)


def test_speed_is_that_of_those_who_work_and_hosts_are_those_of_all() -> None:
    one = told(
        5,
        rate_per_s=2.0,
        hosts=(HostReport(host="a", errors=1),),
        rates=(Rate(at=1.0, pages=5), Rate(at=2.0, pages=6)),
        at=2.0,
    )
    other = told(5, rate_per_s=3.0, hosts=(HostReport(host="b"),), rates=(Rate(at=2.0, pages=7),))
    over = told(5, rate_per_s=50.0, is_final=True)
    whole = together([one, other, over])
    assert whole is not None
    assert (whole.rate_per_s, whole.is_final, whole.is_paused) == (5.0, False, False)
    assert [each.host for each in whole.hosts] == ["a", "b"]
    assert [each.pages for each in whole.rates] == [5, 13]
    assert together([]) is None


def test_a_crawl_is_held_when_all_who_work_for_it_are() -> None:
    held, over = told(5, is_paused=True), told(5, is_final=True)
    for parts, is_held in (
        ([held, over], True),
        ([held, told(5), over], False),
        ([over, over], False),
    ):
        whole = together(parts)
        assert whole is not None
        assert whole.is_paused == is_held


def test_the_frontier_is_believed() -> None:
    totals = NoteTotals(
        items=8, spent=Spent(requests=40, bytes=7, retries=2, rejected={"a": 1, "b": 2})
    )
    figures = counted(CrawlFigures(pages=1690, items=400, requests=6), counts(10, totals))
    assert (figures.pages, figures.items, figures.done, figures.failed) == (9, 8, 10, 1)
    assert (figures.known, figures.waiting, figures.in_flight) == (13, 2, 1)
    assert (figures.requests, figures.bytes, figures.retries, figures.rejected) == (40, 7, 2, 3)
    assert (figures.depths, figures.outcomes) == ((1, 0, 12), {"ok": 9, "timeout": 1})


def test_what_is_older_than_what_was_told_is_not_believed() -> None:
    newer = told(11)
    assert counted(newer, counts(10)) == newer
    later = told(10, requests=50)
    assert counted(later, counts(10, NoteTotals(spent=Spent(requests=49)))) == later


def test_what_the_frontier_does_not_know_stays_as_it_was_told() -> None:
    figures = counted(told(5, items=7, requests=9), counts(10, NoteTotals(items=8)))
    assert (figures.pages, figures.items, figures.requests) == (9, 8, 9)


def test_an_error_is_no_page_and_what_was_spared_is_neither() -> None:
    outcomes = {"ok": 5, "soft_404": 1, "redirect": 2, "robots": 3, "timeout": 4, "dns": 1}
    assert failed_in(outcomes) == 5


@pytest.mark.parametrize(("round", "items"), [(1, 7), (2, 9), (3, 0)])
def test_notes_are_added_up_by_round(round: int, items: int) -> None:
    notes = [ExecutionNotes(items=3), ExecutionNotes(items=4), ExecutionNotes(items=9, round=2)]
    assert totals_of(notes, round).items == items


def test_receipts_that_are_no_notes_are_passed_over() -> None:
    receipts = {
        NOTES: {"items": 1},
        f"{NOTES}@exec-1": {"items": 2, "of_a_later_version": True},
        f"{NOTES}@exec-2": {"items": "many"},
        f"{NOTES}ers": {"items": 3},
        "fleet:items@exec-1": {"items": 4},
    }
    assert {name: each.items for name, each in notes_in(receipts).items()} == {
        NOTES: 1,
        f"{NOTES}@exec-1": 2,
    }
