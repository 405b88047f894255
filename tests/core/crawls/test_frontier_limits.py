"""Whatever a worker asks of a frontier has a bound, and the answer names it."""

import pytest

from crawlfleet.core.crawls.frontier_limits import MAX_HOSTS, MAX_SEEDS, MAX_URLS, problem_of
from crawlfleet.model.crawl.frontier import Link
from crawlfleet.model.wire.frontier import (
    Add,
    AnyAsk,
    Busiest,
    Forget,
    FrontierRequest,
    Lease,
    Open,
    Reclaim,
)


def lease(**fields: object) -> Lease:
    given = {"worker": "w", "number": 1, "hosts": 5, "urls": 5, "held": {}, "now": 0.0, **fields}
    return Lease(**given)  # type: ignore[arg-type]


def test_what_crawls_ask_is_all_right() -> None:
    held = {f"https://{number}.example": 8_000 for number in range(512)}
    asks: list[AnyAsk] = [Open(), lease(hosts=512, urls=8_000, held=held), Busiest(limit=50)]
    assert problem_of(FrontierRequest(asks=asks)) == ""


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lease(hosts=MAX_HOSTS + 1), "asks[1].hosts = 10001: is out of range; send 0 to 10000"),
        (lease(hosts=-1), "asks[1].hosts = -1"),
        (lease(urls=MAX_URLS + 1), "asks[1].urls = 10001"),
        (lease(held={str(number): 1 for number in range(MAX_HOSTS + 1)}), "asks[1].held"),
        (lease(held={"a": 2**60}), "asks[1].held"),
        (lease(worker="w" * 300), "asks[1].worker: is too long"),
        (Reclaim(worker="w", hosts={"a": [*range(MAX_URLS + 1)]}), "asks[1].hosts"),
        (Busiest(limit=2**40), "asks[1].limit"),
        (Add(number=1, seeds=[Link(1, "u", "h")] * (MAX_SEEDS + 1), at=0.0), "asks[1].seeds"),
    ],
)
def test_too_much_is_named_with_what_would_do(ask: AnyAsk, words: str) -> None:
    assert problem_of(FrontierRequest(asks=[Open(), ask])).startswith(words)


def test_too_many_asks_at_once_are_refused() -> None:
    assert "at most 1000" in problem_of(FrontierRequest(asks=[Forget(worker="w")] * 1001))
