"""Whole crawls of random graphs, in random order, with crashes: each URL in reach is visited once.

The model is a graph and its distances. A machine leases, commits, lets retries pass, forgets
workers and reopens the frontier as it likes; at its end everything that is left is done. Then
exactly what lies within the depth limit has been visited, each once, at its true distance.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from crawlfleet.model.crawl.frontier import Commit, HostCommit, HostLease, Link, UrlRetry, Visit
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.frontier_suite.harness import NOW, FrontierHarness, link

T = TypeVar("T")

NODES = 14
WORKERS = ("w0", "w1")

graphs = st.lists(st.lists(st.integers(0, NODES - 1), max_size=4), min_size=NODES, max_size=NODES)
redirects = st.dictionaries(st.integers(0, NODES - 1), st.integers(0, NODES - 1), max_size=3)


def distances(
    graph: list[list[int]], moved: dict[int, int], seeds: set[int], most: int | None
) -> dict[int, int]:
    """Return the distance of each node within `most` from a seed; a redirect does not count as a
    step."""
    far = dict.fromkeys(seeds, 0)
    changed = True
    while changed:
        changed = False
        for node, distance in list(far.items()):
            if node in moved:
                steps = [(moved[node], distance)]
            else:
                steps = [(other, distance + 1) for other in graph[node]]
            for other, there in steps:
                if (most is None or there <= most) and there < far.get(other, 10**6):
                    far[other] = there
                    changed = True
    return far


class SuiteCrawl(RuleBasedStateMachine):
    """A crawl by two workers over a frontier that may be closed at any time."""

    harness: FrontierHarness

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._folder = TemporaryDirectory()
        self._leases: dict[str, dict[str, HostLease]] = {}
        self._open: dict[tuple[str, str], dict[int, int]] = {}
        self._visited: dict[int, int] = {}
        self._now = NOW

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 60))

    @initialize(
        graph=graphs,
        moved=redirects,
        hosts=st.lists(st.integers(0, 3), min_size=NODES, max_size=NODES),
        priorities=st.lists(st.integers(-2, 2), min_size=NODES, max_size=NODES),
        most=st.none() | st.integers(0, 5),
        seeds=st.sets(st.integers(0, NODES - 1), min_size=1, max_size=2),
    )
    def begin(
        self,
        graph: list[list[int]],
        moved: dict[int, int],
        hosts: list[int],
        priorities: list[int],
        most: int | None,
        seeds: set[int],
    ) -> None:
        self._graph, self._moved, self._most, self._seeds = graph, moved, most, seeds
        self._links = [
            link(f"p/{node}", f"https://{hosts[node]}.example", priorities[node])
            for node in range(NODES)
        ]
        self._node = {one.id: node for node, one in enumerate(self._links)}
        self._open_frontier()
        new = self._do(self._frontier.add([self._links[seed] for seed in sorted(seeds)], NOW))
        assert new == len(seeds)

    def _open_frontier(self) -> None:
        rules = self.harness.rules(max_depth=self._most)
        self._frontier = self.harness.make_frontier(Path(self._folder.name), rules)
        receipts = self._do(self._frontier.open())
        assert receipts == ({"count": len(self._visited)} if self._visited else {})
        self._leases = {worker: {} for worker in WORKERS}
        if self.harness.SHARED:
            for worker in WORKERS:
                self._do(self._frontier.forget(worker))

    @rule(
        worker=st.sampled_from(WORKERS),
        hosts=st.integers(0, 4),
        urls=st.integers(1, 3),
        top_up=st.integers(0, 3),
        wait=st.sampled_from([0.0, 0.0, 1.0, 5.0]),
    )
    def take(self, worker: str, hosts: int, urls: int, top_up: int, wait: float) -> None:
        self._now += wait
        mine = self._leases[worker]
        given = self._do(
            self._frontier.lease(
                worker,
                hosts=hosts,
                urls=urls,
                held=dict.fromkeys(mine, top_up),
                now=self._now,
            )
        )
        for one in given:
            others = [held for other, held in self._leases.items() if other != worker]
            assert all(one.host not in held for held in others)
            assert len(one.urls) <= (top_up if one.host in mine else urls)
            if one.host not in mine:
                mine[one.host] = one
                self._open[worker, one.host] = {}
            assert one.token == mine[one.host].token
            for waiting in one.urls:
                assert self._node[waiting.id] not in self._visited
                assert waiting.id not in self._open[worker, one.host]
                self._open[worker, one.host][waiting.id] = waiting.attempt

    def _visit(self, id: int) -> Visit:
        node = self._node[id]
        found: list[Link] = [self._links[other] for other in self._graph[node]]
        if node in self._moved:
            there = self._links[self._moved[node]]
            return Visit(id, Outcome.REDIRECT, 301, self._now, redirect=there, counts=False)
        return Visit(id, Outcome.OK, 200, self._now, links=found)

    @rule(
        worker=st.sampled_from(WORKERS),
        fates=st.lists(st.sampled_from("vvvvrun"), max_size=8),
        release=st.booleans(),
        order=st.randoms(use_true_random=False),
    )
    def settle(self, worker: str, fates: list[str], release: bool, order: Any) -> None:
        """Commit something of each lease of a worker: visits, retries, returns, or nothing."""
        parts = []
        fates = list(fates)
        for host, one in self._leases[worker].items():
            waiting = self._open[worker, host]
            ids = sorted(waiting)
            order.shuffle(ids)
            chosen = {id: fates.pop() if fates else "v" for id in ids}
            by = {fate: [id for id in ids if chosen[id] == fate] for fate in "vrun"}
            part = HostCommit(
                host=host,
                token=one.token,
                visits=[self._visit(id) for id in by["v"]],
                retries=[
                    UrlRetry(id, Outcome.TIMEOUT, 0, self._now, self._now + waiting[id])
                    for id in by["r"]
                ],
                returned=by["u"],
                release=release,
            )
            parts.append((part, [self._node[id] for id in by["v"]]))
            self._open[worker, host] = {id: waiting[id] for id in by["n"]}
        for number in range(self._frontier.partitions):
            chosen_parts = [
                each for each in parts if self._frontier.partition_of(each[0].host) == number
            ]
            for _, nodes in chosen_parts:
                self._visited |= dict.fromkeys(nodes, 1)
            receipts = {"count": len(self._visited)} if self._visited else {}
            step = Commit(hosts=[part for part, _ in chosen_parts], receipts=receipts)
            assert not self._do(self._frontier.commit(worker, step))
        if release:
            self._leases[worker] = {}
        self._check_counts()

    @rule(worker=st.sampled_from(WORKERS))
    def lose(self, worker: str) -> None:
        """Forget a worker; its later commits are refused."""
        lost = self._leases[worker]
        self._do(self._frontier.forget(worker))
        self._leases[worker] = {}
        for host, one in lost.items():
            visits = [self._visit(id) for id in self._open[worker, host]]
            part = HostCommit(host=host, token=one.token, visits=visits)
            commit = Commit(hosts=[part], receipts={"count": -1})
            assert list(self._do(self._frontier.commit(worker, commit))) == [host]

    @rule()
    def crash(self) -> None:
        self._do(self._frontier.close())
        self._open_frontier()
        self._check_counts()

    def _check_counts(self) -> None:
        counts = self._do(self._frontier.counts())
        assert counts.done == len(self._visited)
        assert counts.known == counts.waiting + counts.leased + counts.done
        assert sum(counts.depths.values()) == counts.known
        assert sum(counts.outcomes.values()) == counts.done

    def teardown(self) -> None:
        try:
            if hasattr(self, "_frontier"):
                self._finish()
        finally:
            with suppress(Exception):
                self._do(self._frontier.close())
            self._loop.close()
            self._folder.cleanup()

    def _finish(self) -> None:
        """Do all that is left, and compare with the model."""
        for worker in WORKERS:
            self.settle(worker, [], True, _Sorted())
        while True:
            self.take("w0", 9, 9, 0, 60.0)
            if not self._leases["w0"]:
                break
            self.settle("w0", [], True, _Sorted())
        counts = self._do(self._frontier.counts())
        assert counts.outstanding == 0
        expected = distances(self._graph, self._moved, self._seeds, self._most)
        assert sorted(self._visited) == sorted(expected)
        if self._most is None:
            return  # then depths are not needed, and known approximately
        for node, depth in expected.items():
            record = self._do(self._frontier.record(self._links[node].id))
            assert record is not None
            assert (record.status, record.depth) == ("done", depth)


class _Sorted:
    def shuffle(self, ids: list[int]) -> None:
        """Leave them as they are."""


class CrawlTests(FrontierHarness):
    def test_random_crawls_visit_all_within_reach_once_at_their_distance(self) -> None:
        machine = type("Machine", (SuiteCrawl,), {"harness": self})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=self.CRAWLS,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
