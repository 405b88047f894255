"""Tests of reopening a frontier: commits are kept, leases are not."""

from pathlib import Path
from typing import Any

import pytest

from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import FrontierCounts, HostState, UrlRecord
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite.harness import (
    NOW,
    A,
    B,
    FrontierHarness,
    commit,
    in_turn,
    lease,
    link,
    links,
    on_frontier,
    paths,
    retry,
    visit,
)


class FrontierRestartTests(FrontierHarness):
    def test_everything_committed_outlives_the_process(self, tmp_path: Path) -> None:
        kept: dict[str, Any] = {}
        state = HostState(next_at=NOW + 5, cookies="k=v", robots=b"x")

        async def look(frontier: Frontier) -> tuple[FrontierCounts, list[UrlRecord | None]]:
            found = [*links("abcdef"), *links("xy", B)]
            return await frontier.counts(), [await frontier.record(one.id) for one in found]

        async def before(frontier: Frontier) -> None:
            await frontier.add([*links("abc"), link("x", B)], NOW)
            given = await lease(frontier)
            await commit(
                frontier,
                given[A],
                visit("a", links=[*links("def"), link("y", B)], validator="W/1", note="n"),
                retries=[retry("b", NOW + 9, note="m")],
                state=state,
                receipts={"sink": [1, "two"]},
                release=True,
            )
            await frontier.forget("worker-1")
            kept["all"] = await look(frontier)

        async def after(frontier: Frontier) -> None:
            assert await look(frontier) == kept["all"]
            assert await frontier.open() == {"sink": [1, "two"]}
            given = await lease(frontier, now=NOW + 5)
            assert paths(given[B]) == ["x", "y"]
            assert paths(given[A]) == ["c", "d", "e", "f"]
            assert given[A].state == state
            assert [one.depth for one in given[A].urls] == [0, 1, 1, 1]
            (late,) = (await lease(frontier, held={A: 9}, now=NOW + 9))[A].urls
            assert (late.id, late.attempt) == (link("b").id, 2)

        in_turn(self, tmp_path, before, after)

    def test_what_was_leased_waits_again_under_a_greater_token(self, tmp_path: Path) -> None:
        tokens: list[int] = []

        async def live(frontier: Frontier) -> None:
            await frontier.add(links("abc"), NOW)
            assert (await frontier.counts()).leased == 0
            one = (await lease(frontier))[A]
            assert paths(one) == ["a", "b", "c"]
            assert [waiting.attempt for waiting in one.urls] == [1, 1, 1]
            if tokens:
                stale = one.__class__(host=A, token=tokens[-1], urls=one.urls)
                assert await commit(frontier, stale, visit("a")) == [A]
            tokens.append(one.token)

        in_turn(self, tmp_path, live, live, live)
        assert tokens == sorted(set(tokens))

    def test_known_urls_are_known_in_the_next_life(self, tmp_path: Path) -> None:
        names = [str(number) for number in range(2500)]

        async def before(frontier: Frontier) -> None:
            await frontier.add(links("s"), NOW)
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("s", links=links(names)))

        async def after(frontier: Frontier) -> None:
            counts = await frontier.counts()
            assert counts.known > 2490
            one = (await lease(frontier, urls=1))[A]
            await commit(frontier, one, visit("0", links=links([*names, "s"])))
            assert (await frontier.counts()).known == counts.known
            assert await frontier.add(links(["s", "1", "new"]), NOW) == 1

        in_turn(self, tmp_path, before, after)

    def test_limits_hold_over_lives(self, tmp_path: Path) -> None:
        async def before(frontier: Frontier) -> None:
            await frontier.add(links("ab"), NOW)
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("a", links=links("cdef")))
            assert (await frontier.counts()).dropped == 1

        async def after(frontier: Frontier) -> None:
            one = (await lease(frontier))[A]
            assert paths(one) == ["b", "c"]
            await commit(frontier, one, visit("b", links=links("gh")))
            counts = await frontier.counts()
            assert (counts.known, counts.dropped, counts.pages) == (5, 3, 2)

        in_turn(self, tmp_path, before, after, max_pages=3, max_per_host=5)

    @on_frontier()
    async def test_closed_frontier_says_so(self, frontier: Frontier) -> None:
        await frontier.add(links("a"), NOW)
        await frontier.close()
        await frontier.close()
        with pytest.raises(StoreUnavailable, match="open it"):
            await frontier.counts()
        assert await frontier.open() == {}
        assert (await frontier.counts()).known == 1
