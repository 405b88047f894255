"""Tests of adding URLs, their order, and the records about them."""

from crawlfleet.model.crawl.frontier import PART
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite.harness import (
    NOW,
    A,
    B,
    FrontierHarness,
    commit,
    lease,
    link,
    links,
    on_frontier,
    paths,
    retry,
    visit,
)


class IntakeTests(FrontierHarness):
    @on_frontier()
    async def test_empty_frontier_is_finished_and_gives_nothing(self, frontier: Frontier) -> None:
        counts = await frontier.counts()
        assert (counts.known, counts.outstanding, counts.next_due) == (0, 0, None)
        assert await lease(frontier) == {}
        assert await frontier.record(link("x").id) is None
        assert list(await frontier.busiest(3)) == []

    @on_frontier()
    async def test_seeds_are_counted_once_however_often_they_come(self, frontier: Frontier) -> None:
        assert await frontier.add([*links("abc"), link("a")], NOW) == 3
        assert await frontier.add([*links("bcd"), link("a", B)], NOW) == 2
        assert (await frontier.counts()).waiting == 5
        given = await lease(frontier)
        assert paths(given[A]) == list("abcd")
        assert paths(given[B]) == ["a"]

    @on_frontier()
    async def test_urls_of_a_host_come_in_order_of_discovery(self, frontier: Frontier) -> None:
        names = [str(number) for number in range(300)]
        await frontier.add(links(names), NOW)
        one = (await lease(frontier, urls=7))[A]
        seen = paths(one)
        while more := await lease(frontier, hosts=0, held={A: 7}):
            seen += paths(more[A])
        assert seen == names

    @on_frontier()
    async def test_higher_priority_goes_first(self, frontier: Frontier) -> None:
        await frontier.add(
            [link("low", priority=-3), link("x"), link("high", priority=9), link("y")], NOW
        )
        assert paths((await lease(frontier))[A]) == ["high", "x", "y", "low"]

    @on_frontier()
    async def test_urgent_link_overtakes_what_a_leased_host_has_waiting(
        self, frontier: Frontier
    ) -> None:
        await frontier.add(links(range(500)), NOW)
        one = (await lease(frontier, urls=1))[A]
        urgent = [link(f"urgent {number}", priority=5) for number in range(3)]
        await commit(frontier, one, visit("0", links=[link("late"), *urgent]))
        more = (await lease(frontier, hosts=0, held={A: 5}))[A]
        assert paths(more) == ["urgent 0", "urgent 1", "urgent 2", "1", "2"]

    @on_frontier()
    async def test_every_url_of_a_growing_host_is_given_exactly_once(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("0")], NOW)
        (one,) = (await lease(frontier, urls=1)).values()
        given, fresh = paths(one), 1
        waiting = list(given)
        while waiting:
            numbers = range(fresh, min(fresh + 40, 3000))
            found = [link(str(number), priority=number % 3) for number in numbers]
            fresh += len(found)
            names, waiting = waiting[:12], waiting[12:]
            visits = [visit(name) for name in names]
            await commit(frontier, one, visits[0]._replace(links=found), *visits[1:])
            for more in (await lease(frontier, hosts=0, held={A: 30})).values():
                waiting += paths(more)
                given += paths(more)
        assert len(given) == 3000
        assert len(set(given)) == 3000
        assert (await frontier.counts()).outstanding == 0

    @on_frontier()
    async def test_link_is_taken_in_once_within_and_across_commits(
        self, frontier: Frontier
    ) -> None:
        await frontier.add(links("ab"), NOW)
        one = (await lease(frontier))[A]
        found = [link("c"), link("c"), link("a"), link("d")]
        await commit(frontier, one, visit("a", links=found), visit("b", links=links("dcab")))
        more = (await lease(frontier, held={A: 9}))[A]
        assert paths(more) == ["c", "d"]
        await commit(frontier, one, visit("c", links=links("abcd")), visit("d"))
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.outstanding) == (4, 4, 0)

    @on_frontier()
    async def test_links_to_other_hosts_go_to_their_queues(self, frontier: Frontier) -> None:
        await frontier.add([link("a")], NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, visit("a", links=[link("x", B), link("y", B)]))
        assert paths((await lease(frontier))[B]) == ["x", "y"]

    @on_frontier()
    async def test_redirect_leads_on_at_the_same_depth_with_one_hop_more(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a")], NOW)
        one = (await lease(frontier))[A]
        moved = visit("a", outcome=Outcome.REDIRECT, status=301, redirect=link("b"), counts=False)
        await commit(frontier, one, moved)
        (there,) = (await lease(frontier, held={A: 1}))[A].urls
        assert (there.depth, there.hops, there.attempt) == (0, 1, 1)
        moved = visit("b", outcome=Outcome.REDIRECT, redirect=link("c", B))
        await commit(frontier, one, moved)
        (there,) = (await lease(frontier))[B].urls
        assert (there.depth, there.hops) == (0, 2)

    @on_frontier()
    async def test_counts_say_where_every_url_is(self, frontier: Frontier) -> None:
        await frontier.add(links("abcd"), NOW)
        one = (await lease(frontier, urls=3))[A]
        await commit(
            frontier,
            one,
            visit("a", links=links("xyz")),
            visit("b", outcome=Outcome.CLIENT_ERROR, status=404, counts=False),
        )
        counts = await frontier.counts()
        assert (counts.known, counts.waiting, counts.leased, counts.done) == (7, 4, 1, 2)
        assert (counts.pages, counts.outstanding, counts.dropped) == (1, 5, 0)
        assert counts.outcomes == {"ok": 1, "client_error": 1}
        assert counts.depths == {0: 4, 1: 3}

    @on_frontier()
    async def test_record_tells_the_story_of_a_url(self, frontier: Frontier) -> None:
        await frontier.add([link("a")], NOW - 5)
        seed = await frontier.record(link("a").id)
        assert seed is not None
        assert (seed.url, seed.host, seed.status) == (f"{A}/a", A, "waiting")
        assert (seed.depth, seed.attempts, seed.found_on, seed.found_at) == (0, 0, None, NOW - 5)
        one = (await lease(frontier))[A]
        leased = await frontier.record(link("a").id)
        assert leased is not None
        assert leased.status == "leased"
        await commit(frontier, one, visit("a", links=[link("b")], note="fine"))
        done = await frontier.record(link("a").id)
        assert done is not None
        assert (done.status, done.outcome, done.http_status) == ("done", "ok", 200)
        assert (done.at, done.attempts, done.note) == (NOW, 1, "fine")
        await lease(frontier, held={A: 1})
        await commit(frontier, one, retries=[retry("b", NOW + 9, status=503, note="slow")])
        child = await frontier.record(link("b").id)
        assert child is not None
        assert (child.status, child.depth, child.due) == ("waiting", 1, NOW + 9)
        assert (child.found_on, child.found_at) == (f"{A}/a", NOW)
        assert (child.outcome, child.http_status) == ("timeout", 503)
        assert (child.note, child.attempts) == ("slow", 1)

    @on_frontier()
    async def test_busiest_hosts_are_those_with_the_most_waiting(self, frontier: Frontier) -> None:
        hosts = [f"https://{number}.example" for number in range(9)]
        for number, host in enumerate(hosts):
            await frontier.add(links(range(number + 1), host), NOW)
        (first, second) = await frontier.busiest(2)
        assert (first.host, first.waiting) == (hosts[8], 9)
        assert (second.host, second.waiting) == (hosts[7], 8)
        given = await lease(frontier, urls=4)
        await commit(frontier, given[hosts[8]], visit("0", hosts[8]))
        (first,) = [one for one in await frontier.busiest(9) if one.host == hosts[8]]
        assert (first.waiting, first.leased, first.done) == (5, 3, 1)

    @on_frontier()
    async def test_any_text_in_urls_and_hosts_comes_back_whole(self, frontier: Frontier) -> None:
        awkward = "ünï 爬虫 😀 '\"\\\n%s ?1 :x [] {}"
        await frontier.add([link(awkward, f"https://{awkward}")], NOW)
        (one,) = (await lease(frontier)).values()
        assert one.host == f"https://{awkward}"
        assert paths(one) == [awkward]

    @on_frontier()
    async def test_parts_of_a_host_are_queues_of_their_own(self, frontier: Frontier) -> None:
        parts = [f"{A}{PART}{number}" for number in range(3)]
        found = [link(f"{n}")._replace(host=parts[n % 3]) for n in range(9)]
        assert await frontier.add(found, NOW) == 9
        assert await frontier.add(found, NOW) == 0
        given = await lease(frontier)
        assert {*given} == {*parts}
        for number, part in enumerate(parts):
            urls = [waiting.url for waiting in given[part].urls]
            assert urls == [f"{A}/{n}" for n in range(number, 9, 3)]
            await commit(frontier, given[part], *(visit(url.rpartition("/")[2]) for url in urls))
        record = await frontier.record(link("4").id)
        assert record is not None
        assert (record.url, record.status) == (f"{A}/4", "done")
        assert (await frontier.counts()).outstanding == 0
