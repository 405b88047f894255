"""Commits are atomic, fenced by tokens, and may be repeated."""

import asyncio
from typing import Any

import pytest

from crawlfleet.model.crawl.frontier import Commit, HostCommit, HostState
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

STATE = HostState(
    next_at=NOW - 1,
    delay_s=2.5,
    failures=3,
    robots=b"User-agent: *\nDisallow: /\xff\x00",
    robots_status=200,
    robots_until=NOW + 86_400,
    cookies="k=v; ü",
)
RECEIPT: dict[str, Any] = {"length": 2**53, "parts": ["a", 1.5, None, {"ü": True}]}


class FrontierCommitTests(FrontierHarness):
    @on_frontier()
    async def test_old_token_is_refused_and_changes_nothing(self, frontier: Frontier) -> None:
        await frontier.add(links("ab"), NOW)
        old = (await lease(frontier))[A]
        await frontier.forget(ME)
        new = (await lease(frontier))[A]
        before = await frontier.counts()
        refused = await commit(
            frontier,
            old,
            visit("a", links=links("xyz")),
            retries=[retry("b", NOW)],
            state=STATE,
            release=True,
            receipts={"sink": 1},
        )
        assert refused == [A]
        assert await frontier.counts() == before
        assert await frontier.open() == {}
        assert not await commit(frontier, new, visit("a"), visit("b"))

    @on_frontier()
    async def test_token_of_another_worker_is_refused(self, frontier: Frontier) -> None:
        await frontier.add(links("a"), NOW)
        one = (await lease(frontier))[A]
        assert await commit(frontier, one, visit("a"), worker="other") == [A]
        assert not await commit(frontier, one, visit("a"), release=True)
        assert await commit(frontier, one) == [A]

    @on_frontier()
    async def test_nothing_of_a_commit_counts_when_a_host_of_it_is_refused(
        self, frontier: Frontier
    ) -> None:
        a, b, unknown = neighbours(frontier, 3)
        await frontier.add([link("a", a), link("x", b)], NOW)
        given = await lease(frontier)
        parts = [
            HostCommit(host=a, token=given[a].token, visits=[visit("a", a)]),
            HostCommit(host=b, token=given[b].token - 1, visits=[visit("x", b)]),
            HostCommit(host=unknown, token=1),
        ]
        refused = await frontier.commit(ME, Commit(hosts=parts, receipts={"sink": 1}))
        assert list(refused) == [b, unknown]
        counts = await frontier.counts()
        assert (counts.done, counts.leased) == (0, 2)
        assert await frontier.open() == {}

    @on_frontier()
    async def test_repeated_commit_counts_once(self, frontier: Frontier) -> None:
        await frontier.add(links("abc"), NOW)
        one = (await lease(frontier))[A]
        for _ in range(2):
            refused = await commit(
                frontier,
                one,
                visit("a", links=links("x")),
                retries=[retry("b", NOW + 5)],
                returned=["c"],
                receipts={"sink": 7},
            )
            assert not refused
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.pages) == (4, 1, 1)
        assert (counts.waiting, counts.leased) == (3, 0)
        record = await frontier.record(link("b").id)
        assert record is not None
        assert record.attempts == 1

    @on_frontier()
    async def test_id_named_twice_in_one_commit_counts_once(self, frontier: Frontier) -> None:
        await frontier.add(links("ab"), NOW)
        one = (await lease(frontier))[A]
        part = HostCommit(
            host=A,
            token=one.token,
            visits=[visit("a"), visit("a", links=links("z"))],
            retries=[retry("a", NOW + 1), retry("b", NOW + 1)],
            returned=[link("b").id, link("never").id],
        )
        await frontier.commit(ME, Commit(hosts=[part, part]))
        counts = await frontier.counts()
        assert (counts.known, counts.done, counts.waiting, counts.leased) == (2, 1, 1, 0)

    @on_frontier()
    async def test_commit_concerns_one_partition(self, frontier: Frontier) -> None:
        hosts = [f"https://{number}.example" for number in range(40)]
        assert {frontier.partition_of(host) for host in hosts} == {*range(frontier.partitions)}
        await frontier.add([link("a", host) for host in hosts], NOW)
        given = await lease(frontier, hosts=40)
        assert len(given) == 40
        done = [HostCommit(host=host, token=given[host].token) for host in hosts]
        if frontier.partitions > 1:
            with pytest.raises(ValueError, match="one partition"):
                await frontier.commit(ME, Commit(hosts=done))
        assert (await frontier.counts()).leased == 40

    @on_frontier()
    async def test_newest_receipt_counts_wherever_it_was_committed(
        self, frontier: Frontier
    ) -> None:
        hosts = [f"https://{number}.example" for number in range(12)]
        await frontier.add([link("a", host) for host in hosts], NOW)
        given = await lease(frontier, hosts=12)
        for number, host in enumerate([*hosts, *hosts[::-1]]):
            await commit(frontier, given[host], receipts={"sink": number})
            assert await frontier.open() == {"sink": number}

    @on_frontier()
    async def test_receipts_are_kept_by_sink(self, frontier: Frontier) -> None:
        await frontier.add(links("a"), NOW)
        one = (await lease(frontier))[A]
        await commit(frontier, one, receipts={"one": RECEIPT, "two": 1})
        await commit(frontier, one, receipts={"two": None})
        assert await frontier.open() == {"one": RECEIPT, "two": None}

    @on_frontier()
    async def test_state_moves_with_the_host(self, frontier: Frontier) -> None:
        await frontier.add(links("abc"), NOW)
        one = (await lease(frontier, urls=1))[A]
        assert one.state == HostState()
        await commit(frontier, one, state=STATE)
        await commit(frontier, one, visit("a"), release=True)
        again = (await lease(frontier, worker="other"))[A]
        assert again.state == STATE
        (figures,) = await frontier.busiest(1)
        assert (figures.failures, figures.next_at) == (3, NOW - 1)

    @on_frontier()
    async def test_commits_at_once_all_count(self, frontier: Frontier) -> None:
        hosts = [f"https://{number}.example" for number in range(20)]
        for host in hosts:
            await frontier.add(links("ab", host), NOW)
        given = await lease(frontier, hosts=20)
        await asyncio.gather(
            *(
                commit(frontier, one, visit("a", host, links=[link("shared")]))
                for host, one in given.items()
            )
        )
        counts = await frontier.counts()
        assert (counts.done, counts.leased, counts.known) == (20, 20, 41)
        assert paths((await lease(frontier))[A]) == ["shared"]
