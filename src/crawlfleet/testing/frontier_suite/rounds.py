"""Tests of later rounds: visited URLs are visited again, with the validator of the last visit."""

from pathlib import Path

from crawlfleet.model.crawl.parameters import Outcome
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


class RoundTests(FrontierHarness):
    @on_frontier()
    async def test_what_was_visited_waits_again_with_its_validator(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a"), link("x", B)], NOW)
        given = await lease(frontier)
        await commit(frontier, given[A], visit("a", links=links("bc"), validator='"1"'))
        more = (await lease(frontier, held={A: 9}))[A]
        await commit(
            frontier, more, visit("b", outcome=Outcome.CLIENT_ERROR), visit("c", validator="date")
        )
        await commit(frontier, given[B], visit("x", B))
        await frontier.forget("worker-1")
        assert (await frontier.counts()).outstanding == 0

        await frontier.begin_round(2)
        counts = await frontier.counts()
        assert (counts.known, counts.waiting, counts.done, counts.pages) == (4, 4, 0, 0)
        assert counts.outcomes == {}
        given = await lease(frontier)
        assert [(one.url[-1], one.validator) for one in given[A].urls] == [
            ("a", '"1"'),
            ("b", None),
            ("c", "date"),
        ]
        assert [one.validator for one in given[B].urls] == [None]
        assert [one.depth for one in given[A].urls] == [0, 1, 1]

        await commit(
            frontier,
            given[A],
            visit("a", links=links("bcd"), outcome=Outcome.NOT_MODIFIED),
            release=True,
        )
        counts = await frontier.counts()
        assert (counts.known, counts.done) == (5, 1)
        assert counts.outcomes == {"not_modified": 1}

    def test_a_round_begins_once_and_outlives_the_process(self, tmp_path: Path) -> None:
        async def first(frontier: Frontier) -> None:
            await frontier.add(links("ab"), NOW)
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("a", validator='"1"'), visit("b", validator='"2"'))

        async def second(frontier: Frontier) -> None:
            await frontier.begin_round(2)
            one = (await lease(frontier))[A]
            await commit(frontier, one, visit("a"), retries=[retry("b", NOW + 1)])

        async def third(frontier: Frontier) -> None:
            await frontier.begin_round(2)
            counts = await frontier.counts()
            assert (counts.done, counts.waiting) == (1, 1)
            one = (await lease(frontier, now=NOW + 2))[A]
            assert [(w.url[-1], w.validator, w.attempt) for w in one.urls] == [("b", '"2"', 2)]
            await commit(frontier, one, visit("b", validator='"3"'))
            assert (await frontier.counts()).outstanding == 0

        async def fourth(frontier: Frontier) -> None:
            await frontier.begin_round(3)
            one = (await lease(frontier, now=NOW + 2))[A]
            assert [(w.url[-1], w.validator) for w in one.urls] == [("a", None), ("b", '"3"')]

        in_turn(self, tmp_path, first, second, third, fourth)

    def test_limits_hold_in_each_round(self, tmp_path: Path) -> None:
        async def first(frontier: Frontier) -> None:
            await frontier.add(links("abc"), NOW)
            one = (await lease(frontier))[A]
            assert paths(one) == ["a", "b"]
            await commit(frontier, one, visit("a"), visit("b", validator='"b"'), release=True)

        async def second(frontier: Frontier) -> None:
            await frontier.begin_round(2)
            one = (await lease(frontier))[A]
            assert len(one.urls) == 2
            assert not (await lease(frontier, held={A: 9}))

        in_turn(self, tmp_path, first, second, max_pages=2)
