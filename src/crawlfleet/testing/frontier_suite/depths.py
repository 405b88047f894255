"""A URL's depth is its shortest known distance from a seed, whatever came first."""

from itertools import pairwise

from crawlfleet.model.crawl.frontier import Visit
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
    on_frontier,
    paths,
    visit,
)


async def depth(frontier: Frontier, path: str, host: str = A) -> int | None:
    record = await frontier.record(link(path, host).id)
    return None if record is None else record.depth


async def chain(frontier: Frontier, *names: str) -> None:
    """Visit the first, which leads to the second, and so on."""
    for name, following in pairwise(names):
        await crawl_one(frontier, name, links([following]))


class DepthTests(FrontierHarness):
    @on_frontier()
    async def test_waiting_url_that_is_met_nearer_waits_at_the_smaller_depth(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("s", B)], NOW)
        seed = (await lease(frontier, worker="other"))[B]
        await frontier.add([link("a")], NOW)
        await chain(frontier, "a", "b", "c", "d")
        assert await depth(frontier, "d") == 3
        await commit(frontier, seed, visit("s", B, links=links("d")), worker="other")
        assert await depth(frontier, "d") == 1
        assert [one.depth for one in (await lease(frontier))[A].urls] == [1]
        assert (await frontier.counts()).depths == {0: 2, 1: 2, 2: 1}

    @on_frontier(max_depth=2)
    async def test_leased_url_that_comes_nearer_lets_its_links_in(self, frontier: Frontier) -> None:
        await frontier.add([link("a"), link("s", B)], NOW)
        given = await lease(frontier, urls=1)
        await commit(frontier, given[A], visit("a", links=links("b")))
        await lease(frontier, held={A: 1})
        await commit(frontier, given[A], visit("b", links=links("c")))
        (deep,) = (await lease(frontier, held={A: 1}))[A].urls
        assert deep.depth == 2
        await commit(frontier, given[B], visit("s", B, links=links("c")))
        await commit(frontier, given[A], visit("c", links=links("d")))
        assert await depth(frontier, "c") == 1
        assert await depth(frontier, "d") == 2

    @on_frontier(max_depth=2)
    async def test_done_page_that_comes_nearer_lets_its_links_in_without_a_visit(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a")], NOW)
        await chain(frontier, "a", "b")
        await frontier.add([link("s", B)], NOW)
        given = await lease(frontier, urls=1)
        await commit(frontier, given[A], visit("b", links=[link("c", B)]))
        (deep,) = (await lease(frontier, held={B: 1}))[B].urls
        assert deep.depth == 2
        far = [link(f"far {number}", B) for number in range(50)]
        await commit(frontier, given[B], visit("c", B, links=far))
        assert (await frontier.counts()).known == 4
        await commit(frontier, given[B], visit("s", B, links=[link("c", B)]))
        assert await depth(frontier, "c", B) == 1
        more = (await lease(frontier, held={B: 99}))[B]
        assert paths(more) == [f"far {number}" for number in range(50)]
        assert {one.depth for one in more.urls} == {2}
        counts = await frontier.counts()
        assert counts.done == 4
        assert counts.depths == {0: 2, 1: 2, 2: 50}
        found = await frontier.record(far[0].id)
        assert found is not None
        assert found.found_on == f"{B}/c"

    @on_frontier(max_depth=4)
    async def test_falling_depth_spreads_over_visited_pages_and_redirects(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("0"), link("s", B)], NOW)
        given = await lease(frontier, urls=1)
        for number in range(4):
            found = links([number + 1])
            fields = {"links": found} if number != 2 else {"redirect": found[0]}
            await commit(frontier, given[A], visit(str(number), **fields))
            await lease(frontier, held={A: 1})
        await commit(frontier, given[A], visit("4", links=links(["5"])))
        await lease(frontier, held={A: 1})
        await commit(frontier, given[A], visit("5", links=links(["6"])))
        assert [await depth(frontier, str(number)) for number in range(7)] == [
            *(0, 1, 2, 2, 3, 4),
            None,
        ]
        await commit(frontier, given[B], visit("s", B, links=links(["2"])))
        assert [await depth(frontier, str(number)) for number in range(7)] == [
            *(0, 1, 1, 1, 2, 3, 4)
        ]
        assert paths((await lease(frontier, held={A: 9}))[A]) == ["6"]

    @on_frontier(max_depth=3)
    async def test_order_within_one_commit_does_not_matter(self, frontier: Frontier) -> None:
        for first in (True, False):
            host = f"https://{first}.example"
            await frontier.add([link("s", host), link("t", host)], NOW)
            one = (await lease(frontier, urls=1))[host]
            await commit(frontier, one, visit("s", host, links=links("b", host)))
            await lease(frontier, held={host: 2})
            await commit(frontier, one, visit("b", host, links=links("c", host)))
            await lease(frontier, held={host: 1})
            deep = visit("c", host, links=links("d", host))
            near = visit("t", host, links=links("c", host))
            pair: list[Visit] = [deep, near] if first else [near, deep]
            await commit(frontier, one, *pair)
            assert await depth(frontier, "c", host) == 1
            assert await depth(frontier, "d", host) == 2
            await commit(frontier, one, release=True)
            await frontier.forget("worker-1")

    @on_frontier(max_depth=1)
    async def test_page_that_becomes_a_seed_lets_its_links_in(self, frontier: Frontier) -> None:
        await frontier.add([link("a")], NOW)
        await chain(frontier, "a", "b", "c")
        assert await depth(frontier, "c") is None
        assert await frontier.add([link("b"), link("c", B)], NOW) == 1
        assert await depth(frontier, "b") == 0
        assert await depth(frontier, "c") == 1

    @on_frontier(max_depth=2, max_per_host=3)
    async def test_limit_per_host_holds_when_links_are_let_in_later(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("s", B), link("a")], NOW)
        given = await lease(frontier, urls=1)
        await commit(frontier, given[A], visit("a", links=links("b")))
        await lease(frontier, held={A: 1})
        await commit(frontier, given[A], visit("b", links=links("c")))
        await lease(frontier, held={A: 1})
        await commit(frontier, given[A], visit("c", links=[*links("defg"), link("x", B)]))
        await commit(frontier, given[B], visit("s", B, links=links("c")))
        counts = await frontier.counts()
        assert counts.known == 5
        assert counts.dropped == 4
