"""The frontier on Redis, where every commit waits for the disk (`appendfsync always`).

Bytes are what `used_memory` grew by, and the log of commands, for each URL. The floor is a bare
script that takes, looks up and puts as many ids and URLs in hashes and lists, and knows neither
hosts nor leases, depths, states or retries.
"""

import random
import time

import msgspec
import psutil
import uvloop
from redis import asyncio as aio
from tests.support.many_urls import PAGES, fill, link
from tests.support.servers import RedisServer, redis_server

from bench.frontier.sqlite import Floor
from bench.frontier.work import Figures, cpu_s, make_batch, rounds_of, rules, work
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.model.crawl.frontier import Link

FLOOR = """
local q, seen, out = KEYS[1] .. ':q', KEYS[1] .. ':u', KEYS[1] .. ':l'
local added = cmsgpack.unpack(ARGV[1])
for i = 1, #added, 2 do
  local new = redis.call('HSETNX', seen, added[i], added[i + 1]) == 1
  if new then redis.call('RPUSH', q, added[i]) end
end
local ids = redis.call('LPOP', q, tonumber(ARGV[2]))
if ids and #ids > 0 then redis.call('HSET', out, ids[1], #ids) end
return ids
"""


def measure(kind: str, known: int, rounds: int, partitions: int = 1) -> Figures:
    """On a Redis of its own."""
    return uvloop.run(_measure(kind, known, rounds_of(known, rounds), partitions))


async def _measure(kind: str, known: int, rounds: int, partitions: int) -> Figures:
    with redis_server() as server:
        url = f"{server.url()}?partitions={partitions}"
        frontier = RedisFrontier(url=url, crawl="bench", rules=rules(kind))
        await frontier.open()
        empty, empty_log = await used(server), log_bytes(server)
        await fill(frontier, known)
        memory_bytes = (await used(server) - empty) / known
        disk_bytes = (log_bytes(server) - empty_log) / known
        spent = await work(frontier, known, rounds, psutil.Process(server.pid))
        await frontier.close()
    floor = await _measure_floor(known, rounds)
    return Figures(
        store="Redis" if partitions == 1 else f"Redis, {partitions} partitions",
        kind=kind,
        known=known,
        **spent.figures(),
        memory_bytes=memory_bytes,
        disk_bytes=disk_bytes,
        floor_pages_per_s=floor.per_s,
        floor_us=floor.us,
        floor_bytes=floor.bytes,
    )


async def _measure_floor(known: int, rounds: int) -> Floor:
    with redis_server() as server:
        client = aio.Redis.from_url(server.url(), protocol=2)
        script = client.register_script(FLOOR)

        async def put(links: list[Link], taken: int) -> None:
            words = [word for one in links for word in (str(one.id), one.url)]
            await script(keys=["{floor}"], args=[msgspec.msgpack.encode(words), taken])

        empty = await used(server)
        for start in range(0, known, 5000):
            await put([link(one) for one in range(start, min(start + 5000, known))], 1)
        bytes_per_url = (await used(server) - empty) / known
        chance = random.Random(1)
        redis = psutil.Process(server.pid)
        wall_s = spent_s = 0.0
        for number in range(rounds):
            links = [one for some in make_batch(chance, known, number) for one in some]
            began = time.perf_counter()
            began_cpu = time.process_time() + cpu_s(redis)
            await put(links, PAGES)
            wall_s += time.perf_counter() - began
            spent_s += time.process_time() + cpu_s(redis) - began_cpu
        await client.aclose()
    pages = rounds * PAGES
    return Floor(pages / wall_s, spent_s / pages * 1e6, bytes_per_url)


async def used(server: RedisServer) -> int:
    """Bytes of memory."""
    client = aio.Redis.from_url(server.url(), protocol=2)
    about = await client.info("memory")
    await client.aclose()
    return int(about["used_memory"])


def log_bytes(server: RedisServer) -> int:
    """Of the log of commands, which Redis writes anew when it has doubled."""
    return sum(path.stat().st_size for path in server.folder.rglob("*.aof"))
