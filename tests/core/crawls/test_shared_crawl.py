"""What those who work for one crawl get, and what they come to together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.crawls.figures import counted, together
from crawlfleet.core.crawls.shared_crawl import CrawlShare, share_of
from crawlfleet.model.crawl.figures import HostReport, Rate, ToldFigures
from crawlfleet.model.crawl.frontier import FrontierCounts


@pytest.mark.parametrize(
    ("held", "free", "share"),
    [
        ({"a": 0}, 7, CrawlShare(7, 0)),
        ({"a": 0, "b": 0}, 7, CrawlShare(4, 0)),
        ({"a": 4, "b": 0}, 0, CrawlShare(0, 2)),
        ({"a": 4, "b": 3}, 0, CrawlShare(0, 0)),
        ({"a": 4, "b": 0}, 4, CrawlShare(0, 0)),
        ({"a": 1, "b": 0}, 0, CrawlShare(0, 0)),
        ({"a": 9, "b": 0, "c": 0}, 0, CrawlShare(0, 6)),
        ({"a": 5, "b": 5, "c": 0}, 0, CrawlShare(0, 2)),
        ({"a": 2, "b": 2, "c": 1, "d": 0}, 0, CrawlShare(0, 1)),
    ],
)
def test_nobody_has_more_than_its_share(held: dict[str, int], free: int, share: CrawlShare) -> None:
    assert share_of("a", held, free) == share


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.integers(0, 40))
def test_hosts_settle_and_then_stay(held: list[int], free: int) -> None:
    """Whoever asks gets what is due and gives back what is not: in the end all have their part."""
    has = {str(number): hosts for number, hosts in enumerate(held)}
    total = sum(held) + free
    for _ in range(12):
        for name in has:
            due = share_of(name, has, free)
            taken = -due.surplus if due.surplus else min(due.more, free)
            has[name] += taken
            free -= taken
    assert sum(has.values()) + free == total
    assert free == 0
    assert max(has.values()) <= -(-total // len(has))
    assert min(has.values()) >= total // len(has)
    assert all(share_of(name, has, free).surplus == 0 for name in has)


def test_own_parts_add_up_and_the_newest_speaks_for_the_whole() -> None:
    parts = [
        ToldFigures(
            at=1.0, pages=3, items=5, rate_per_s=1.5, known=9, hosts=(HostReport(host="x"),)
        ),
        ToldFigures(
            at=2.0,
            pages=4,
            items=1,
            rate_per_s=2.0,
            known=12,
            hosts=(HostReport(host="y", errors=2),),
            rates=(Rate(at=1.0, pages=2), Rate(at=2.0, pages=2)),
        ),
        ToldFigures(at=0.5, pages=1, is_final=True, rate_per_s=9.0, rates=(Rate(at=0.4, pages=1),)),
    ]
    whole = together(parts)
    assert whole is not None
    assert (whole.pages, whole.items, whole.rate_per_s, whole.known) == (8, 6, 3.5, 12)
    assert not whole.is_final
    assert [each.host for each in whole.hosts] == ["y", "x"]
    assert [each.pages for each in whole.rates] == [2, 3]
    counts = FrontierCounts(known=20, waiting=5, leased=2, done=13, pages=11)
    exact = counted(whole, counts)
    assert (exact.pages, exact.waiting, exact.in_flight, exact.items) == (11, 5, 2, 6)
    assert together([]) is None
