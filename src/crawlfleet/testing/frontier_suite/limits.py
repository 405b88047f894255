"""Tests of the limits that the rules set."""

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite.harness import (
    NOW,
    A,
    B,
    FrontierHarness,
    commit,
    crawl_one,
    lease,
    link,
    links,
    neighbours,
    on_frontier,
    paths,
    retry,
    visit,
)


class LimitTests(FrontierHarness):
    @on_frontier(max_pages=5)
    async def test_no_more_is_leased_than_pages_are_left(self, frontier: Frontier) -> None:
        a, b = neighbours(frontier, 2)
        await frontier.add([*links(range(9), a), *links(range(9), b)], NOW)
        given = await lease(frontier, urls=4)
        assert [len(one.urls) for one in given.values()] == [4, 1]
        assert await lease(frontier, held={a: 9, b: 9}) == {}
        await commit(frontier, given[a], *(visit(str(number), a) for number in range(4)))
        assert await lease(frontier, held={a: 9, b: 9}) == {}
        await commit(frontier, given[b], visit("0", b))
        counts = await frontier.counts()
        assert (counts.pages, counts.leased, counts.waiting) == (5, 0, 13)
        assert await lease(frontier, held={a: 9}) == {}

    @on_frontier(max_pages=30)
    async def test_pages_that_are_left_go_to_whoever_can_use_them(self, frontier: Frontier) -> None:
        hosts = [f"https://{number}.example" for number in range(20)]
        await frontier.add([link(str(n), host) for host in hosts for n in range(9)], NOW)
        visited = 0
        while given := await lease(frontier, hosts=3, urls=4):
            for turn, (host, one) in enumerate(given.items()):
                # Some are no pages, and give their room back; to other hosts, by and by.
                fates = [visit(path, host, counts=turn % 2 == 0) for path in paths(one)]
                visited += sum(fate.counts for fate in fates)
                assert not await commit(frontier, one, *fates, release=True)
                counts = await frontier.counts()
                assert counts.pages == visited <= 30
                assert counts.pages + counts.leased <= 30
        assert visited == 30

    @on_frontier(max_pages=2)
    async def test_visits_that_are_no_pages_give_their_room_back(self, frontier: Frontier) -> None:
        await frontier.add(links("abcde"), NOW)
        one = (await lease(frontier))[A]
        assert paths(one) == ["a", "b"]
        gone = visit("a", outcome=Outcome.CLIENT_ERROR, status=404, counts=False)
        await commit(frontier, one, gone, retries=[retry("b", NOW + 60)])
        more = (await lease(frontier, held={A: 9}))[A]
        assert paths(more) == ["c", "d"]
        await commit(frontier, one, visit("c"), returned=["d"])
        assert paths((await lease(frontier, held={A: 9}))[A]) == ["d"]

    @on_frontier(max_per_host=3)
    async def test_further_urls_of_a_full_host_are_counted_and_dropped(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a")], NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, visit("a", links=[*links("bcde"), *links("xy", B)]))
        counts = await frontier.counts()
        assert (counts.known, counts.dropped) == (5, 2)
        assert await frontier.record(link("d").id) is None
        assert paths((await lease(frontier, held={A: 9}))[A]) == ["b", "c"]

    @on_frontier(max_per_host=2)
    async def test_seeds_are_taken_in_whatever_the_limit(self, frontier: Frontier) -> None:
        assert await frontier.add(links("abcd"), NOW) == 4
        one = (await lease(frontier))[A]
        await commit(frontier, one, visit("a", links=links("bx")))
        counts = await frontier.counts()
        assert (counts.known, counts.dropped) == (4, 1)

    @on_frontier(max_depth=1)
    async def test_links_that_lie_too_deep_are_not_taken_in(self, frontier: Frontier) -> None:
        await frontier.add([link("a")], NOW)
        await crawl_one(frontier, "a", links("b"))
        await crawl_one(frontier, "b", links("cd"))
        counts = await frontier.counts()
        assert (counts.known, counts.outstanding, counts.dropped) == (2, 0, 0)
        assert counts.depths == {0: 1, 1: 1}

    @on_frontier(max_depth=0)
    async def test_depth_zero_visits_the_seeds_and_their_redirects(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a")], NOW)
        await crawl_one(frontier, "a", links("xyz"), redirect=link("b"))
        await crawl_one(frontier, "b", links("xyz"))
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.outstanding) == (2, 2, 0)
