"""A crawl on Redis is restored from its checkpoint as it was, and its output has each page once."""

import asyncio
import os
import random
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.adapters.frontier.redis.checkpoint import CheckpointFile
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.adapters.frontier.redis.journal import Writing, whole
from crawlfleet.errors import FrontierLost, StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierRules,
    HostCommit,
    HostLease,
    HostState,
    Link,
)
from crawlfleet.model.crawl.frontier_place import FrontierPlace, PlaceState
from crawlfleet.ports.frontier.host import Portion
from crawlfleet.testing.frontier_suite.harness import NOW, link, retry, visit
from tests.support.servers import RedisServer

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
CRAWLS = 200 if SOAK else 1
HOSTS = [f"https://{name}.example" for name in "abcdefg"]


# Which steps can count ------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, list[Writing | None]], dict[int, int]]:
    """What several writers did in several partitions, and how far each was read."""
    partitions = draw(st.integers(1, 4))
    steps: dict[int, list[Writing | None]] = {number: [] for number in range(partitions)}
    made: dict[str, int] = {}
    for writer in draw(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=40)):
        some = steps[draw(st.integers(0, partitions - 1))]
        if not writer:
            some.append(None)
            continue
        made[writer] = made.get(writer, 0) + 1
        some.append(Writing(writer, made[writer]))
    ends = {number: draw(st.integers(0, len(some))) for number, some in steps.items()}
    return steps, ends


@given(histories())
@settings(deadline=None, max_examples=1000 if SOAK else 60)
def test_steps_count_with_all_of_their_writer_before_them_and_as_many_as_can(
    history: tuple[dict[int, list[Writing | None]], dict[int, int]],
) -> None:
    steps, ends = history
    read = {number: some[: ends[number]] for number, some in steps.items()}
    count = whole(read, {})
    assert all(count[number] <= ends[number] for number in steps)
    assert is_whole(read, count)
    assert count == shrunk(read, {number: len(some) for number, some in read.items()})


def is_whole(steps: dict[int, list[Writing | None]], count: dict[int, int]) -> bool:
    held: dict[str, set[int]] = {}
    for number, some in steps.items():
        for each in some[: count[number]]:
            if each is not None:
                held.setdefault(each.writer, set()).add(each.number)
    return all(numbers == {*range(1, len(numbers) + 1)} for numbers in held.values())


def shrunk(steps: dict[int, list[Writing | None]], count: dict[int, int]) -> dict[int, int]:
    """Leave out the last step of a partition that cannot count, one by one."""
    count = dict(count)
    while not is_whole(steps, count):
        held = {e for n, some in steps.items() for e in some[: count[n]] if e is not None}
        for number, some in steps.items():
            bad = [
                at
                for at, each in enumerate(some[: count[number]])
                if each is not None
                and any(Writing(each.writer, n) not in held for n in range(1, each.number))
            ]
            if bad:
                count[number] = bad[0]
                break
    return count


# Crawls ---------------------------------------------------------------------------------------


class Graph:
    """Pages of some hosts that link to each other."""

    def __init__(self, chance: random.Random, pages: int) -> None:
        self.pages = [(str(number), chance.choice(HOSTS)) for number in range(pages)]
        self.links: dict[str, list[Link]] = {}
        for path, _ in self.pages:
            some = chance.sample(self.pages, k=min(pages, chance.randint(0, 4)))
            self.links[path] = [link(*each) for each in some]
        self.seed = link(*self.pages[0])

    def within(self, depth: int | None) -> dict[str, int]:
        """The paths of all pages that can be reached, and how far they are."""
        of = {link(*page).id: page[0] for page in self.pages}
        found = {self.pages[0][0]: 0}
        queue = deque(found)
        while queue:
            path = queue.popleft()
            if depth is not None and found[path] >= depth:
                continue
            for one in self.links[path]:
                if of[one.id] not in found:
                    found[of[one.id]] = found[path] + 1
                    queue.append(of[one.id])
        return found


class Interrupted(CheckpointFile):
    """Others go on with the crawl while it is saved."""

    between: Callable[[], Awaitable[None]] | None = None

    async def take(self, portion: Portion) -> None:
        await super().take(portion)
        if self.between is not None:
            await self.between()


class Played:
    """A crawl by several workers, each with a run of output, and a master that saves it."""

    def __init__(
        self, server: RedisServer, folder: Path, seed: int, *, partitions: int, **rules: Any
    ) -> None:
        self.chance = random.Random(seed)
        self.graph = Graph(self.chance, 45)
        self.rules = FrontierRules(dedup_capacity=1000, **rules)
        self.server = server
        self.url = f"{server.url()}?partitions={partitions}"
        self.crawl = secrets.token_hex(4)
        self.checkpoint = Interrupted(folder / f"{seed}.db")
        self.workers: dict[str, RedisFrontier] = {}
        self.held: dict[str, dict[str, HostLease]] = {}
        self.runs: dict[str, list[str]] = {}
        """What each worker has staged, in order."""
        self.epoch = secrets.token_hex(8)
        self.fetched = 0

    def frontier(self, **given: Any) -> RedisFrontier:
        return RedisFrontier(
            url=self.url, crawl=self.crawl, rules=self.rules, epoch=self.epoch, **given
        )

    async def put(self, state: PlaceState) -> None:
        place = FrontierPlace(server="", epoch=self.epoch, state=state, rules=self.rules)
        await self.checkpoint.put(place)

    async def begin(self) -> None:
        await self.checkpoint.open()
        await self.put(PlaceState.BEGUN)
        self.master = self.frontier(anew=True, journal=True)
        await self.master.open()

    async def join(self) -> None:
        name = f"exec-{len(self.runs)}"
        self.runs[name], self.held[name] = [], {}
        self.workers[name] = self.frontier()
        await self.workers[name].open()
        await self.workers[name].commit("", Commit(hosts=(), receipts={f"out@{name}": 0}))
        await self.workers[name].add([self.graph.seed], NOW)

    async def step(self) -> None:
        """One of them leases, and commits some of what it has, partition by partition."""
        name = self.chance.choice([*self.workers])
        frontier, held = self.workers[name], self.held[name]
        for one in await frontier.lease(name, hosts=2, urls=3, held={}, now=NOW + 100):
            held[one.host] = one
        parts: dict[int, list[HostCommit]] = {}
        staged: dict[int, list[str]] = {}
        for host in self.chance.sample([*held], k=self.chance.randint(0, len(held))):
            one = held.pop(host)
            number = frontier.partition_of(host)
            paths = [each.url.removeprefix(f"{host}/") for each in one.urls]
            later = [p for p, u in zip(paths, one.urls, strict=True) if u.attempt == 1]
            later = [path for path in later if self.chance.random() < 0.1]
            visits = [
                visit(path, host, links=self.graph.links[path])
                for path in paths
                if path not in later
            ]
            staged.setdefault(number, []).extend(path for path in paths if path not in later)
            parts.setdefault(number, []).append(
                HostCommit(
                    host=host,
                    token=one.token,
                    visits=visits,
                    retries=[retry(path, NOW + 1, host) for path in later],
                    state=HostState(failures=len(later), delay_s=1.5),
                    release=True,
                )
            )
        for number, hosts in parts.items():
            self.runs[name] += staged[number]
            self.fetched += len(staged[number])
            commit = Commit(hosts=hosts, receipts={f"out@{name}": len(self.runs[name])})
            assert not await frontier.commit(name, commit)

    async def lose(self) -> None:
        """Redis is emptied, and the crawl restored as it was when it was last saved."""
        self.server.execute("FLUSHALL")
        for frontier in [*self.workers.values(), self.master]:
            with pytest.raises(FrontierLost):
                await frontier.counts()
            await frontier.close()
        self.workers.clear()
        counted = await self.checkpoint.receipts()
        for name, run in self.runs.items():
            del run[counted.get(f"out@{name}", 0) :]
        self.epoch = secrets.token_hex(8)
        await self.put(PlaceState.LOST)
        self.master = self.frontier(anew=True, journal=True)
        await self.master.open()
        await self.master.restore(self.checkpoint)
        await self.put(PlaceState.BEGUN)

    async def state(self) -> dict[str, Any]:
        """All that is known, as if nothing were leased."""
        found = {}
        for page in self.graph.pages:
            record = await self.master.record(link(*page).id)
            if record is not None:
                status = "waiting" if record.status == "leased" else record.status
                found[page[0]] = (status, record.depth, record.attempts, record.found_on)
        return found

    async def run(self) -> None:
        await self.begin()
        for _ in range(3):
            await self.join()
        saved = None
        for _ in range(2000):
            await self.step()
            deed = self.chance.random()
            if deed < 0.15:
                self.checkpoint.between = self.step if self.chance.random() < 0.5 else None
                await self.master.save(self.checkpoint)
                self.checkpoint.between = None
                saved = None
            elif deed < 0.25:
                # Nothing else happens meanwhile, so that it is known what there was.
                await self.master.save(self.checkpoint)
                saved = await self.state()
            elif deed < 0.3:
                await self.lose()
                if saved is not None:
                    assert await self.state() == saved
                await self.join()
            elif deed < 0.4 and len(self.workers) > 1:
                gone = self.chance.choice([*self.workers])
                await self.workers.pop(gone).close()
                await self.master.forget(gone)
                self.held[gone].clear()
            elif deed < 0.5 and len(self.workers) < 4:
                await self.join()
            if not (counts := await self.master.counts()).outstanding:
                break
            if self.rules.max_pages is not None and counts.pages >= self.rules.max_pages:
                break
        await self.check()

    async def check(self) -> None:
        counts = await self.master.counts()
        receipts = await self.master.open()
        output = [
            path
            for name, run in self.runs.items()
            for path in run[: receipts.get(f"out@{name}", 0)]
        ]
        assert len(output) == len(set(output)) == counts.pages
        reached = self.graph.within(self.rules.max_depth)
        if self.rules.max_pages is None:
            assert set(output) == set(reached)
            assert counts.known == counts.done == len(reached)
            depths = {page: told[1] for page, told in (await self.state()).items()}
            if self.rules.max_depth is not None:
                assert depths == reached
        else:
            assert len(output) == min(self.rules.max_pages, len(reached))
        for frontier in [*self.workers.values(), self.master]:
            await frontier.close()
        await self.checkpoint.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)  # hundreds of crawls in a soak
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    "rules", [{}, {"max_depth": 3}, {"dedup": "bloom"}, {"max_pages": 20}], ids=str
)
def test_crawls_that_are_lost_again_and_again_have_each_page_once(
    redis: RedisServer, tmp_path: Path, partitions: int, rules: dict[str, Any]
) -> None:
    for seed in range(CRAWLS):
        played = Played(redis, tmp_path, seed, partitions=partitions, **rules)
        asyncio.run(played.run())


@pytest.mark.slow
def test_a_redis_that_was_set_back_is_noticed_by_who_has_the_checkpoint(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scenario() -> None:
        played = Played(redis, tmp_path, 1, partitions=2)
        await played.begin()
        await played.join()
        for _ in range(3):
            await played.step()
        await played.master.save(played.checkpoint)
        versions = await played.checkpoint.versions()
        await played.master.close()
        redis.execute("HSET", f"crawlfleet:{{{played.crawl}:0}}:b", "version", "1")
        with pytest.raises(FrontierLost, match="gone back"):
            await played.frontier(versions=versions).open()

    asyncio.run(scenario())


@pytest.mark.slow
def test_steps_are_dropped_by_redis_once_the_checkpoint_has_them(
    redis: RedisServer, tmp_path: Path
) -> None:
    async def scenario() -> None:
        played = Played(redis, tmp_path, 2, partitions=1)
        await played.begin()
        await played.join()
        for _ in range(3):
            await played.step()
        key = f"crawlfleet:{{{played.crawl}:0}}:j"
        assert redis.execute("LLEN", key) != ":0"
        assert await played.master.save(played.checkpoint) > 0
        assert redis.execute("LLEN", key) == ":0"
        assert await played.master.save(played.checkpoint) == 0
        record = await played.checkpoint.record(played.graph.seed.id)
        assert record is not None
        assert (record.url, record.status) == (played.graph.seed.url, "done")
        other = CheckpointFile(tmp_path / "2.db")
        with pytest.raises(StoreUnavailable, match="another master"):
            await other.open()
        await played.master.discard()
        assert redis.execute("KEYS", f"*{played.crawl}*") == "*0"

    asyncio.run(scenario())
