"""What a page costs in the Redis frontier, and what a URL takes there.

    .venv/bin/python -m bench.frontier_redis [--quick] [--known 10000 1000000] [--json figures.json]

Part of `bench frontier`, with its rounds: 400 URLs of 50 hosts are leased and committed, each with
20 links of which one is new; every commit waits for the disk (`appendfsync always`). CPU is that of
the worker's process and that of Redis, apart. Bytes are what `used_memory` grew by, and the log of
commands, for each URL. The floor is a bare script that takes, looks up and puts as many ids and
URLs in hashes and lists, and knows neither hosts nor leases, depths, states or retries.
"""

import argparse
import json
import random
import time
from pathlib import Path

import msgspec
import psutil
import uvloop
from redis import asyncio as aio
from rich.console import Console
from rich.table import Table

from bench.frontier import (
    HOSTS,
    LINKS,
    PAGES,
    START,
    WORKER,
    link,
    make_batch,
    rules,
    visits,
)
from crawlfleet.backends.frontier.redis.frontier import RedisFrontier
from crawlfleet.model.frontier import Commit, Link
from crawlfleet.testing.servers import RedisServer, redis_server

KINDS = ("unlimited", "limited depth", "bloom")
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


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one size and kind of crawl."""

    known: int
    kind: str
    partitions: int
    pages_per_s: float
    client_us: float
    """CPU of a page in the worker's process."""
    server_us: float
    """CPU of a page in Redis."""
    bytes_per_url: float
    log_bytes_per_url: float
    floor_pages_per_s: float
    floor_server_us: float
    floor_bytes_per_url: float


def made(server: RedisServer, kind: str, partitions: int) -> RedisFrontier:
    url = f"{server.url()}?partitions={partitions}"
    return RedisFrontier(url=url, crawl="bench", rules=rules(kind))


async def step(frontier: RedisFrontier, links: list[list[Link]], urls: int) -> int:
    """Lease, and commit the visits of what was leased; how many there were."""
    leases = await frontier.lease(WORKER, hosts=HOSTS, urls=urls, held={}, now=START)
    count = sum(len(lease.urls) for lease in leases)
    given = links[:count] + [[] for _ in range(count - len(links))]
    parts = [visits(lease, given, release=True) for lease in leases]
    for number in range(frontier.partitions):
        mine = [part for part in parts if frontier.partition_of(part.host) == number]
        if mine:
            assert not await frontier.commit(WORKER, Commit(hosts=mine, receipts={"pages": 1}))
    return count


async def fill(frontier: RedisFrontier, known: int) -> None:
    """Make a crawl that knows so many URLs and has visited a twentieth of them."""
    await frontier.add([link(number) for number in range(HOSTS)], START)
    number = HOSTS
    while number < known:
        # A batch is as many links as the next step can have pages for.
        links = []
        for _ in range(PAGES):
            end = min(number + 20, known)
            links.append([link(one) for one in range(number, end)])
            number = end
        done = 0
        while done < len(links):
            done += await step(frontier, links[done:], PAGES // HOSTS)


async def used(server: RedisServer) -> int:
    client = aio.Redis.from_url(server.url(), protocol=2)
    about = await client.info("memory")
    await client.aclose()
    return int(about["used_memory"])


def log_bytes(server: RedisServer) -> int:
    return sum(path.stat().st_size for path in server.folder.rglob("*.aof"))


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def measure(kind: str, known: int, rounds: int, partitions: int) -> Figures:
    with redis_server() as server:
        frontier = made(server, kind, partitions)
        await frontier.open()
        empty, empty_log = await used(server), log_bytes(server)
        await fill(frontier, known)
        bytes_per_url = (await used(server) - empty) / known
        log_per_url = (log_bytes(server) - empty_log) / known
        chance = random.Random(1)
        redis = psutil.Process(server.pid)
        client_s = server_s = wall_s = 0.0
        pages = 0
        for number in range(rounds):
            batch = make_batch(chance, known, number)
            began, began_cpu, began_server = time.perf_counter(), time.process_time(), cpu(redis)
            pages += await step(frontier, batch, PAGES // HOSTS)
            wall_s += time.perf_counter() - began
            client_s += time.process_time() - began_cpu
            server_s += cpu(redis) - began_server
        await frontier.close()
    floor = await measure_floor(known, rounds)
    return Figures(
        known=known,
        kind=kind,
        partitions=partitions,
        pages_per_s=pages / wall_s,
        client_us=client_s / pages * 1e6,
        server_us=server_s / pages * 1e6,
        bytes_per_url=bytes_per_url,
        log_bytes_per_url=log_per_url,
        floor_pages_per_s=floor[0],
        floor_server_us=floor[1],
        floor_bytes_per_url=floor[2],
    )


async def measure_floor(known: int, rounds: int) -> tuple[float, float, float]:
    """Pages a second, CPU µs of a page in Redis, bytes of a URL."""
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
        wall_s = server_s = 0.0
        for number in range(rounds):
            links = [one for some in make_batch(chance, known, number) for one in some]
            began, began_server = time.perf_counter(), cpu(redis)
            await put(links, PAGES)
            wall_s += time.perf_counter() - began
            server_s += cpu(redis) - began_server
        await client.aclose()
    pages = rounds * PAGES
    return pages / wall_s, server_s / pages * 1e6, bytes_per_url


def main(arguments: list[str] | None = None) -> list[Figures]:
    parser = argparse.ArgumentParser(prog="bench.frontier_redis", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 URLs at most, fewer rounds")
    parser.add_argument("--known", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=KINDS)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    if options.quick:
        options.known, options.rounds, options.partitions = [10_000, 100_000], 20, [1]
    figures = [
        uvloop.run(measure(kind, known, min(options.rounds, known * 9 // 10 // PAGES), partitions))
        for kind in options.kind
        for partitions in options.partitions
        for known in options.known
    ]
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(msgspec.to_builtins(figures), indent=1))
    return figures


def show(figures: list[Figures]) -> None:
    table = Table(title=f"frontier on Redis: commits of {PAGES} pages with {LINKS} links")
    for name in (
        *("crawl", "partitions", "known URLs", "pages/s", "floor", "CPU µs a page: worker"),
        *("Redis", "floor", "bytes a URL", "floor", "log bytes a URL"),
    ):
        table.add_column(name, justify="left" if name == "crawl" else "right")
    for one in figures:
        table.add_row(
            *(one.kind, str(one.partitions), f"{one.known:,}", f"{one.pages_per_s:,.0f}"),
            *(f"{one.floor_pages_per_s:,.0f}", f"{one.client_us:.0f}", f"{one.server_us:.0f}"),
            *(f"{one.floor_server_us:.0f}", f"{one.bytes_per_url:.0f}"),
            *(f"{one.floor_bytes_per_url:.0f}", f"{one.log_bytes_per_url:.0f}"),
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
