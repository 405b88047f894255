"""Dedup on Redis: each new id is new to one client, and a filter errs as seldom as it says."""

import asyncio
import os
import random
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from crawlfleet.adapters.frontier.redis.connection import Line, script
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.adapters.frontier.redis.partition import FIRST_ERROR
from crawlfleet.adapters.frontier.redis.records import word
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.testing.frontier_suite.harness import NOW, commit, lease, link, visit
from tests.support.servers import RedisServer

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
IDS = 10_000_000 if SOAK else 60_000
AT_ONCE = 1000
PROMISED = 1e-4


ADD = """
local new = {}
for i, id in ipairs(A.ids) do
  if may_be_seen(id) then
    new[i] = '0'
  else
    note_seen(id)
    new[i] = '1'
  end
end
write_numbers()
local held, blocks = 0, 0
for stage = 1, num('stages') do
  held = held + num('held:' .. digits(stage))
  blocks = blocks + num('blocks:' .. digits(stage))
end
return {
  table.concat(new), digits(held), digits(num('stages')), string.format('%.17g', present_error()),
  digits(blocks * BLOCK),
}
"""


class Filled(NamedTuple):
    held: int
    stages: int
    error: float
    bytes: int


class Seen:
    """The filters of a partition, without the rest of it."""

    def __init__(self, line: Line, key: str, *, capacity: int, error: float = FIRST_ERROR) -> None:
        self._line = line
        self._key = f"crawlfleet:{{{key}}}"
        self._rules = {"capacity": capacity, "error": error}
        self._script = script("numbers", "seen")[0] + ADD

    async def add(self, ids: Sequence[bytes]) -> list[bool]:
        """Of each whether it was new."""
        return [one == ord("1") for one in (await self._ask(ids))[0]]

    async def filled(self) -> Filled:
        _, held, stages, error, size = await self._ask(())
        return Filled(int(held), int(stages), float(error), int(size))

    async def _ask(self, ids: Sequence[bytes]) -> Any:
        words = {"rules": self._rules, "ids": [word(id) for id in ids]}
        packed = msgspec.msgpack.encode(words)
        return await self._line.command("EVAL", self._script, 1, self._key, packed)


def batches(seed: int, count: int) -> Iterator[list[bytes]]:
    """Random ids, the same for a seed."""
    chance = random.Random(seed)
    for start in range(0, count, AT_ONCE):
        some = chance.randbytes(8 * min(AT_ONCE, count - start))
        yield [some[at : at + 8] for at in range(0, len(some), 8)]


def on_line(server: RedisServer, work: Callable[[Line, str], Awaitable[None]]) -> None:
    async def main() -> None:
        line = Line(server.url())
        await line.open()
        try:
            await work(line, secrets.token_hex(4))
        finally:
            await line.close()

    asyncio.run(main())


@pytest.mark.timeout(3600)
def test_filter_that_grows_errs_less_often_than_promised(redis: RedisServer) -> None:
    async def work(line: Line, key: str) -> None:
        # Four stages, each filled to the brim but the last.
        seen = Seen(line, key, capacity=IDS // 12)
        taken_for_known = 0
        for ids in batches(1, IDS):
            taken_for_known += (await seen.add(ids)).count(False)
        filled = await seen.filled()
        assert filled.stages == 4
        assert filled.held == IDS - taken_for_known
        assert filled.error < PROMISED
        assert filled.bytes < 5 * IDS
        # Poisson: five standard deviations above what is allowed, and one more for small samples.
        allowed = IDS * PROMISED
        assert taken_for_known <= allowed + 5 * allowed**0.5 + 1
        for ids in batches(1, min(IDS, 100_000)):
            assert not any(await seen.add(ids))
        await line.command("UNLINK", *[f"crawlfleet:{{{key}}}:f:{stage}" for stage in range(1, 5)])

    on_line(redis, work)


def test_filter_that_is_full_errs_as_often_as_it_says(redis: RedisServer) -> None:
    """With an error that a sample can show."""

    async def work(line: Line, key: str) -> None:
        seen = Seen(line, key, capacity=20_000, error=0.01)
        for ids in batches(2, 20_000):
            await seen.add(ids)
        filled = await seen.filled()
        assert filled.stages == 1
        assert 0.008 < filled.error < 0.0101
        # What is new goes into the next stage, which is as good as empty.
        known = 0
        for ids in batches(3, 20_000):
            known += (await seen.add(ids)).count(False)
        assert 120 < known < 290

    on_line(redis, work)


def test_each_new_id_is_new_to_exactly_one_of_several_clients(redis: RedisServer) -> None:
    async def work(line: Line, key: str) -> None:
        ids = [id for some in batches(4, 5_000) for id in some]
        new: Counter[bytes] = Counter()

        async def add(number: int) -> None:
            client = Line(redis.url())
            await client.open()
            seen = Seen(client, key, capacity=1000)
            mine = random.Random(number).sample(ids, len(ids))
            for start in range(0, len(mine), 50):
                some = mine[start : start + 50]
                was_new = await seen.add(some)
                new.update(id for id, fresh in zip(some, was_new, strict=True) if fresh)
            await client.close()

        await asyncio.gather(*(add(number) for number in range(6)))
        assert set(new.values()) == {1}
        assert len(new) >= len(ids) - 3

    on_line(redis, work)


@pytest.mark.parametrize("dedup", ["exact", "bloom"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_workers_that_find_the_same_links_at_once_take_each_in_once(
    redis: RedisServer, dedup: str, partitions: int
) -> None:
    hosts = [f"https://{number}.example" for number in range(24)]
    found = [link(str(number), hosts[number % 24]) for number in range(960)]

    async def main() -> None:
        crawl = secrets.token_hex(4)
        url = f"{redis.url()}?partitions={partitions}"
        clients = [
            RedisFrontier(url=url, crawl=crawl, rules=FrontierRules(dedup=dedup)) for _ in range(6)
        ]
        for client in clients:
            await client.open()
        await clients[0].add([link("s", host) for host in hosts], NOW)
        given = await lease(clients[0], hosts=24)

        async def work(number: int, host: str) -> None:
            mine = random.Random(number).sample(found, len(found))
            one = given[host]
            assert not await commit(clients[number % 6], one, visit("s", host, links=mine))

        await asyncio.gather(*(work(number, host) for number, host in enumerate(hosts)))
        counts = await clients[1].counts()
        assert (counts.known, counts.waiting, counts.done) == (984, 960, 24)
        taken: Counter[str] = Counter()
        while more := await lease(clients[2], held=dict.fromkeys(hosts, 50)):
            taken.update(url.url for one in more.values() for url in one.urls)
        assert taken == Counter(one.url for one in found)
        for client in clients:
            await client.close()

    asyncio.run(main())


def test_filter_that_is_nearly_full_is_warned_of_once_before_it_grows(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    host = "https://a.example"

    async def main() -> list[int]:
        frontier = RedisFrontier(
            url=redis.url(),
            crawl=secrets.token_hex(4),
            rules=FrontierRules(dedup="bloom", dedup_capacity=1000),
        )
        await frontier.open()
        await frontier.add([link("s", host)], NOW)
        warned = []
        for step in range(12):
            one = (await lease(frontier, urls=1))[host]
            found = [link(f"{step}/{number}", host) for number in range(100)]
            caplog.clear()
            path = one.urls[0].url.removeprefix(f"{host}/")
            await commit(frontier, one, visit(path, host, links=found), release=True)
            if "nearly full" in caplog.text:
                warned.append(step)
        await frontier.close()
        return warned

    assert asyncio.run(main()) == [8]
