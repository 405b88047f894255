"""Tests of leases: which worker may visit which host, and for how long."""

import asyncio

from crawlfleet.model.crawl.frontier import Commit, HostState
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite.harness import (
    ME,
    NOW,
    A,
    FrontierHarness,
    commit,
    lease,
    link,
    links,
    neighbours,
    on_frontier,
    paths,
    retry,
    visit,
)


class LeaseTests(FrontierHarness):
    @on_frontier()
    async def test_lease_gives_so_many_hosts_and_so_many_urls_of_each(
        self, frontier: Frontier
    ) -> None:
        hosts = neighbours(frontier, 3)
        for host in hosts:
            await frontier.add(links(range(5), host), NOW)
        given = await lease(frontier, hosts=2, urls=3)
        assert {host: paths(one) for host, one in given.items()} == {
            hosts[0]: ["0", "1", "2"],
            hosts[1]: ["0", "1", "2"],
        }
        assert (await frontier.counts()).leased == 6

    @on_frontier()
    async def test_leased_host_is_given_to_nobody_else(self, frontier: Frontier) -> None:
        await frontier.add(links("abc"), NOW)
        await lease(frontier, urls=1)
        assert await lease(frontier, worker="other") == {}
        assert await lease(frontier, worker="other", held={A: 5}) == {}
        assert await lease(frontier, hosts=5) == {}

    @on_frontier()
    async def test_people_are_told_who_has_a_host(self, frontier: Frontier) -> None:
        hosts = neighbours(frontier, 2)
        for host in hosts:
            await frontier.add(links("abc", host), NOW)
        await lease(frontier, hosts=1, urls=2)
        holders = {one.host: one.worker for one in await frontier.busiest(9)}
        assert holders[hosts[0]].endswith(ME)
        assert holders[hosts[1]] == ""
        shares = getattr(frontier, "shares", None)
        if shares is not None:
            told = await shares()
            assert [each.number for each in told] == [*range(frontier.partitions)]
            first = told[0]
            assert [(name.endswith(ME), count) for name, count in first.lent.items()] == [(True, 1)]
            assert (first.free, first.waiting, first.leased, first.done) == (1, 4, 2, 0)
            assert all(each.lent == {} and each.waiting == 0 for each in told[1:])

    @on_frontier()
    async def test_top_up_comes_under_the_same_token_without_state(
        self, frontier: Frontier
    ) -> None:
        await frontier.add(links("abcd"), NOW)
        first = (await lease(frontier, urls=1))[A]
        assert first.state is not None
        more = (await lease(frontier, hosts=0, held={A: 2}))[A]
        assert more.token == first.token
        assert more.state is None
        assert paths(more) == ["b", "c"]
        assert paths((await lease(frontier, held={A: 9}))[A]) == ["d"]
        assert await lease(frontier, held={A: 9}) == {}
        assert await lease(frontier, held={"https://unknown.example": 3}) == {}

    @on_frontier()
    async def test_host_whose_next_request_may_come_first_is_given_first(
        self, frontier: Frontier
    ) -> None:
        a, b, c = neighbours(frontier, 3)
        for host in (a, b, c):
            await frontier.add(links(range(3), host), NOW)
        for host, next_at in ((a, NOW + 3), (b, NOW + 1), (c, NOW + 2)):
            one = (await lease(frontier, hosts=1, urls=1))[host]
            state = HostState(next_at=next_at)
            await commit(frontier, one, visit("0", host), state=state, release=True)
        assert await lease(frontier) == {}
        assert (await frontier.counts()).next_due == NOW + 1
        assert list(await lease(frontier, hosts=1, now=NOW + 1)) == [b]
        assert (await frontier.counts()).next_due == NOW + 2
        assert list(await lease(frontier, now=NOW + 9)) == [c, a]

    @on_frontier()
    async def test_hosts_take_turns(self, frontier: Frontier) -> None:
        hosts = neighbours(frontier, 5)
        for host in hosts:
            await frontier.add(links(range(4), host), NOW)
        order = []
        for turn in range(10):
            ((host, one),) = (await lease(frontier, hosts=1, urls=1)).items()
            order.append(host)
            await commit(frontier, one, visit(str(turn // 5), host), release=True)
        assert sorted(order[:5]) == sorted(order[5:]) == hosts

    @on_frontier()
    async def test_released_lease_gives_back_what_was_not_spoken_of(
        self, frontier: Frontier
    ) -> None:
        await frontier.add(links("abcd"), NOW)
        one = (await lease(frontier))[A]
        assert not await commit(frontier, one, visit("b"), release=True)
        counts = await frontier.counts()
        assert (counts.waiting, counts.leased, counts.done) == (3, 0, 1)
        again = (await lease(frontier, worker="other"))[A]
        assert again.token > one.token
        assert paths(again) == ["a", "c", "d"]
        assert [waiting.attempt for waiting in again.urls] == [1, 1, 1]

    @on_frontier()
    async def test_returned_urls_wait_as_if_never_leased(self, frontier: Frontier) -> None:
        await frontier.add(links(range(200)), NOW)
        one = (await lease(frontier, urls=150))[A]
        await commit(frontier, one, visit("0"), returned=["1", "2", "149"])
        counts = await frontier.counts()
        assert (counts.waiting, counts.leased) == (53, 146)
        more = (await lease(frontier, held={A: 100}))[A]
        expected = ["1", "2", "149", *map(str, range(150, 200))]
        assert paths(more) == expected
        assert {waiting.attempt for waiting in more.urls} == {1}

    @on_frontier()
    async def test_returned_retry_keeps_its_attempts(self, frontier: Frontier) -> None:
        await frontier.add(links("ab"), NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, retries=[retry("a", NOW + 1), retry("b", NOW + 2)])
        more = (await lease(frontier, held={A: 9}, now=NOW + 5))[A]
        assert len(more.urls) == 2
        await commit(frontier, one, returned=["b", "a"])
        more = (await lease(frontier, held={A: 9}, now=NOW + 5))[A]
        assert sorted(paths(more)) == ["a", "b"]
        assert [waiting.attempt for waiting in more.urls] == [2, 2]

    @on_frontier()
    async def test_forgotten_worker_loses_its_leases(self, frontier: Frontier) -> None:
        a, b = neighbours(frontier, 2)
        await frontier.add([*links("abc", a), link("x", b)], NOW)
        mine = await lease(frontier, hosts=1)
        other = await lease(frontier, worker="other")
        await frontier.forget(ME)
        await frontier.forget("nobody")
        assert (await frontier.counts()).leased == 1
        assert await commit(frontier, mine[a], visit("a", a)) == [a]
        assert not await commit(frontier, other[b], visit("x", b), worker="other")
        again = (await lease(frontier, worker="third"))[a]
        assert again.token > mine[a].token
        assert paths(again) == ["a", "b", "c"]

    @on_frontier()
    async def test_retry_is_not_given_before_its_time(self, frontier: Frontier) -> None:
        await frontier.add(links("ab"), NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, visit("b"), retries=[retry("a", NOW + 10)])
        counts = await frontier.counts()
        assert (counts.waiting, counts.leased, counts.next_due) == (1, 0, NOW + 10)
        assert await lease(frontier, held={A: 5}, now=NOW + 9.9) == {}
        (again,) = (await lease(frontier, held={A: 5}, now=NOW + 10))[A].urls
        assert (again.id, again.attempt) == (link("a").id, 2)
        assert (await frontier.counts()).next_due is None

    @on_frontier()
    async def test_host_with_only_a_retry_is_given_when_that_is_due(
        self, frontier: Frontier
    ) -> None:
        await frontier.add([link("a")], NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, retries=[retry("a", NOW + 10)], release=True)
        assert await lease(frontier, now=NOW + 5) == {}
        assert (await frontier.counts()).next_due == NOW + 10
        (again,) = (await lease(frontier, now=NOW + 11))[A].urls
        assert again.attempt == 2

    @on_frontier()
    async def test_many_retries_all_come_back_in_time(self, frontier: Frontier) -> None:
        names = [str(number) for number in range(300)]
        await frontier.add(links(names), NOW)
        one = (await lease(frontier, urls=300))[A]
        dues = {name: NOW + 1 + (number * 7) % 30 for number, name in enumerate(names)}
        await commit(frontier, one, retries=[retry(name, due) for name, due in dues.items()])
        given: dict[str, float] = {}
        for second in range(40):
            now = NOW + second
            while more := await lease(frontier, held={A: 11}, now=now):
                given |= dict.fromkeys(paths(more[A]), now)
        assert given == dues
        await commit(frontier, one, *(visit(name) for name in names))
        assert (await frontier.counts()).outstanding == 0

    @on_frontier()
    async def test_several_workers_at_once_never_share_a_url(self, frontier: Frontier) -> None:
        hosts = [f"https://{number}.example" for number in range(30)]
        for host in hosts:
            await frontier.add(links(range(10), host), NOW)
        visited: list[tuple[str, str]] = []

        async def work(worker: str) -> None:
            while given := await lease(frontier, hosts=3, urls=4, worker=worker):
                for host, one in given.items():
                    names = paths(one)
                    visited.extend((host, name) for name in names)
                    done = [visit(name, host) for name in names]
                    refused = await commit(frontier, one, *done, release=True, worker=worker)
                    assert not refused

        await asyncio.gather(*(work(f"w{number}") for number in range(4)))
        assert len(visited) == len(set(visited)) == 300
        assert (await frontier.counts()).outstanding == 0

    @on_frontier()
    async def test_empty_commit_changes_nothing(self, frontier: Frontier) -> None:
        assert list(await frontier.commit(ME, Commit(hosts=[]))) == []
