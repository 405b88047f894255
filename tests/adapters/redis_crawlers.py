"""A random crawl by several workers on one Redis frontier, while things are killed."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import Commit, HostCommit, HostLease, UrlRetry, Visit
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.frontier_suite.crawls import distances
from crawlfleet.testing.frontier_suite.harness import NOW, link

HOSTS = 12
IDLE_S = 0.01


async def open_patiently(frontier: RedisFrontier) -> None:
    while True:
        try:
            await frontier.open()
            return
        except StoreUnavailable as error:
            if not error.retryable:
                raise
        await asyncio.sleep(IDLE_S)


class Web:
    """A graph of pages on several hosts, and how far each is from the seed."""

    def __init__(self, chance: random.Random, pages: int, most: int | None) -> None:
        self.graph = [
            [chance.randrange(pages) for _ in range(chance.randrange(5))] for _ in range(pages)
        ]
        # A way through all of them, so that there is something to do.
        for page in range(pages - 1):
            self.graph[page].append(page + 1 if page % 7 else min(page + 5, pages - 1))
        self.moved = {chance.randrange(pages): chance.randrange(pages) for _ in range(pages // 20)}
        self.links = [
            link(f"p/{page}", f"https://{chance.randrange(HOSTS)}.example", chance.randrange(-2, 3))
            for page in range(pages)
        ]
        self.pages = {one.id: page for page, one in enumerate(self.links)}
        self.far = distances(self.graph, self.moved, {0}, most)

    def visit(self, id: int, at: float) -> Visit:
        page = self.pages[id]
        if page in self.moved:
            there = self.links[self.moved[page]]
            return Visit(id, Outcome.REDIRECT, 301, at, redirect=there, counts=False)
        return Visit(id, Outcome.OK, 200, at, links=[self.links[to] for to in self.graph[page]])


class Journal:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.visited: Counter[int] = Counter()
        self.commits: Counter[str] = Counter()
        """By worker, as its receipts count them."""
        self.finished = 0


class Worker:
    """Leases, visits and commits until the frontier says that the crawl is finished."""

    def __init__(
        self, name: str, frontier: RedisFrontier, web: Web, journal: Journal, chance: random.Random
    ) -> None:
        self.name = name
        self._frontier = frontier
        self._web = web
        self._journal = journal
        self._chance = chance
        self._held: dict[str, HostLease] = {}
        self._open: dict[str, list[int]] = {}
        self._now = NOW

    async def work(self) -> None:
        frontier, chance = self._frontier, self._chance
        await open_patiently(frontier)
        try:
            while True:
                self._now += 1
                given = await frontier.lease(
                    self.name,
                    hosts=chance.randint(1, 4),
                    urls=chance.randint(1, 6),
                    held={host: 2 for host in self._held if chance.random() < 0.7},
                    now=self._now,
                )
                for one in given:
                    self._held.setdefault(one.host, one)
                    self._open.setdefault(one.host, []).extend(url.id for url in one.urls)
                for number in range(frontier.partitions):
                    await self._commit(number)
                if not given and not self._held:
                    if not (await frontier.counts()).outstanding:
                        self._journal.finished += 1
                        return
                    await asyncio.sleep(IDLE_S)
        finally:
            await frontier.close()

    async def _commit(self, number: int) -> None:
        parts, done = [], []
        for host, one in [*self._held.items()]:
            if self._frontier.partition_of(host) != number:
                continue
            ids = self._open[host]
            self._chance.shuffle(ids)
            visited, rest = ids[:4], ids[4:]
            again = [visited.pop()] if visited and self._chance.random() < 0.1 else []
            due = self._now + self._chance.randrange(3)
            retries = [UrlRetry(id, Outcome.TIMEOUT, 0, self._now, due) for id in again]
            release = not rest and self._chance.random() < 0.5
            visits = [self._web.visit(id, self._now) for id in visited]
            parts.append(
                HostCommit(
                    host=host, token=one.token, visits=visits, retries=retries, release=release
                )
            )
            done += visited
            self._open[host] = rest
            if release:
                del self._held[host], self._open[host]
        if not parts:
            return
        receipt = {f"sink@{self.name}": self._journal.commits[self.name] + 1}
        refused = await self._frontier.commit(self.name, Commit(hosts=parts, receipts=receipt))
        assert not refused, f"{self.name} was refused {refused}"
        self._journal.commits[self.name] += 1
        self._journal.visited.update(self._web.pages[id] for id in done)


async def crawl(
    make: Callable[[str | None], RedisFrontier],
    web: Web,
    journal: Journal,
    chance: random.Random,
    *,
    workers: int,
    disturb: Callable[[], object] | None = None,
    every_s: float = 0.3,
) -> None:
    """Crawl with so many workers; meanwhile `disturb` is called in a thread until it returns
    `False`, and each time one of the workers is gone and another takes its place."""
    frontier = make(None)
    await open_patiently(frontier)
    await frontier.add([web.links[0]], NOW)
    names = iter(f"w{number}" for number in range(10_000))
    running: dict[str, asyncio.Task[None]] = {}

    def begin() -> None:
        name = next(names)
        worker = Worker(name, make(frontier.epoch), web, journal, random.Random(chance.random()))
        running[name] = asyncio.create_task(worker.work())

    async def lose_some(disturb: Callable[[], object]) -> None:
        while not all(task.done() for task in running.values()):
            await asyncio.sleep(every_s * chance.random())
            if await asyncio.to_thread(disturb) is False:
                return
            lost = chance.choice([*running])
            task = running.pop(lost)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(outcome, Exception):
                raise outcome
            await frontier.forget(lost)
            begin()

    try:
        for _ in range(workers):
            begin()
        if disturb:
            await lose_some(disturb)
        await asyncio.gather(*running.values())
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        await frontier.close()


async def check_books(frontier: RedisFrontier, web: Web, journal: Journal) -> None:
    """All within reach is done, at its distance; what was acknowledged counts once."""
    receipts = await frontier.open()
    counts = await frontier.counts()
    assert counts.outstanding == 0
    assert counts.done == counts.known == len(web.far)
    assert sum(counts.depths.values()) == len(web.far)
    for page, distance in web.far.items():
        record = await frontier.record(web.links[page].id)
        assert record is not None
        assert (record.status, record.depth) == ("done", distance), page
    await frontier.close()
    assert set(journal.visited) <= set(web.far)
    assert max(journal.visited.values()) == 1
    for worker, commits in journal.commits.items():
        # A worker may have died between a commit and its answer.
        assert receipts[f"sink@{worker}"] in (commits, commits + 1)
