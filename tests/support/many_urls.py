"""Very many URLs, told to a frontier twice: what that takes, and how often it errs.

`python -m tests.support.many_urls sqlite|redis exact|bloom URLS` prints the figures as JSON;
`set fingerprints|urls` are those of a plain set on Redis, to compare. A process of its own, since
its memory is one of the figures.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psutil  # type: ignore[import-untyped]

from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierRules,
    HostCommit,
    HostLease,
    Link,
    Visit,
)
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.frontier.frontier import Frontier
from tests.support.servers import RedisServer, redis_server

HOSTS: Final = 50
PAGES: Final = 400
"""That are committed at once."""
LINKS: Final = 20
"""Of a page."""
START: Final = 1_763_193_600.0
WORKER: Final = "teller"
GROWTHS: Final = 12
"""A Bloom filter begins with a twelfth of what it will hold, so that it grows three times."""
PROBED: Final = 10
"""A tenth as many further URLs tell how often a filter of that size errs."""


class ManyUrlsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    store: str
    dedup: str
    urls: int
    new: int
    """Of those, when they were told first."""
    new_again: int
    """When they were told again; none should be."""
    probes: int = 0
    wrong: int = 0
    """New ones among the probes that were taken for known."""
    seconds: float
    cpu_s: float
    """Of the process that tells; with SQLite that is all of it."""
    server_cpu_s: float = 0.0
    peak_mb: float
    """The most memory of that process."""
    bytes_per_url: float
    """In the memory of Redis, or of the process with SQLite."""
    disk_bytes_per_url: float = 0.0
    warnings: int = 0
    """How often a filter was said to be nearly full."""

    @property
    def error(self) -> float:
        """The chance that a new URL is taken for a known one, as measured at the end."""
        return self.wrong / self.probes if self.probes else 0.0


def link(number: int) -> Link:
    """The `number`-th URL; its id is as random as a fingerprint, and no other has it."""
    mixed = number * 0x9E3779B97F4A7C15 & 2**64 - 1
    mixed = (mixed ^ mixed >> 31) * 0xD6E8FEB86659FD93 & 2**64 - 1
    host = f"https://host-{number % HOSTS}.example"
    url = f"{host}/category-{number % 977}/product-{number}.html?ref=list"
    return Link(mixed - 2**63, url, host)


def visits(lease: HostLease, links: list[list[Link]], *, release: bool) -> HostCommit:
    """Each leased URL was visited, and had the next of these links."""
    done = [Visit(one.id, Outcome.OK, 200, START, links.pop()) for one in lease.urls]
    return HostCommit(host=lease.host, token=lease.token, visits=done, release=release)


async def step(frontier: Frontier, links: list[list[Link]], urls: int) -> int:
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


async def tell(frontier: Frontier, numbers: range) -> int:
    """Have pages link to these URLs; how many were new."""
    before = (await frontier.counts()).known
    for start in range(numbers.start, numbers.stop, PAGES * LINKS):
        links = [
            [link(one) for one in range(first, min(first + LINKS, numbers.stop))]
            for first in range(start, min(start + PAGES * LINKS, numbers.stop), LINKS)
        ]
        done = 0
        while done < len(links):
            done += await step(frontier, links[done:], PAGES // HOSTS)
    return (await frontier.counts()).known - before


async def fill(frontier: Frontier, known: int) -> None:
    """Make a crawl that knows so many URLs and has visited a twentieth of them."""
    await frontier.add([link(number) for number in range(HOSTS)], START)
    await tell(frontier, range(HOSTS, known))


async def tell_twice(
    frontier: Frontier, *, store: str, dedup: str, urls: int, server: RedisServer | None
) -> ManyUrlsReport:
    """Of a frontier that is open and empty."""
    me = psutil.Process()
    keeper = psutil.Process(server.pid) if server else me
    memory, cpu_s, keeper_s = _memory(server), _cpu_s(me), _cpu_s(keeper)
    begun = time.monotonic()
    with _heard() as said:
        await frontier.add([link(number) for number in range(HOSTS)], START)
        new = HOSTS + await tell(frontier, range(HOSTS, urls))
        new_again = await tell(frontier, range(urls))
        seconds = time.monotonic() - begun
        grown = _memory(server) - memory
        cpu_s, keeper_s = _cpu_s(me) - cpu_s, _cpu_s(keeper) - keeper_s
        probes = urls // PROBED
        accepted = await tell(frontier, range(urls, urls + probes))
    return ManyUrlsReport(
        store=store,
        dedup=dedup,
        urls=urls,
        new=new,
        new_again=new_again,
        probes=probes,
        wrong=probes - accepted,
        seconds=seconds,
        cpu_s=cpu_s,
        server_cpu_s=keeper_s if server else 0.0,
        peak_mb=_peak_bytes() / 1e6,
        bytes_per_url=grown / urls,
        warnings=sum("nearly full" in each.getMessage() for each in said),
    )


def measured(store: str, dedup: str, urls: int) -> ManyUrlsReport:
    """In this process; on a disk, and with a Redis of its own where that is needed."""
    if store == "sqlite":
        return asyncio.run(_on_sqlite(dedup, urls))
    with redis_server() as server:
        if store == "set":
            return asyncio.run(_in_set(server, dedup, urls))
        return asyncio.run(_on_redis(server, dedup, urls))


async def _on_sqlite(dedup: str, urls: int) -> ManyUrlsReport:
    from crawlfleet.adapters.frontier.sqlite import SqliteFrontier

    with _folder() as folder:
        frontier = SqliteFrontier(path=folder / "crawl.db", rules=_rules(dedup, urls))
        await frontier.open()
        told = await tell_twice(frontier, store="SQLite", dedup=dedup, urls=urls, server=None)
        await frontier.close()
        disk = sum(path.stat().st_size for path in folder.iterdir())
    return msgspec.structs.replace(told, disk_bytes_per_url=disk / (urls + told.probes))


async def _on_redis(server: RedisServer, dedup: str, urls: int) -> ManyUrlsReport:
    from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier

    frontier = RedisFrontier(url=server.url(), crawl="many", rules=_rules(dedup, urls))
    await frontier.open()
    told = await tell_twice(frontier, store="Redis", dedup=dedup, urls=urls, server=server)
    await frontier.close()
    disk = sum(path.stat().st_size for path in server.folder.rglob("*.aof"))
    return msgspec.structs.replace(told, disk_bytes_per_url=disk / (urls + told.probes))


async def _in_set(server: RedisServer, kind: str, urls: int) -> ManyUrlsReport:
    """What a crawler without anything else keeps: a set of fingerprints, or of URLs."""
    from hashlib import sha1

    from redis import asyncio as aio

    def word(number: int) -> bytes:
        url = link(number).url.encode()
        return sha1(url).hexdigest().encode() if kind == "fingerprints" else url

    client = aio.Redis.from_url(server.url(), protocol=2)
    me, redis = psutil.Process(), psutil.Process(server.pid)
    memory, cpu_s, redis_s = _memory(server), _cpu_s(me), _cpu_s(redis)
    begun, new = time.monotonic(), [0, 0]
    for turn in range(2):
        for numbers in _lots(range(urls), PAGES * LINKS):
            new[turn] += await client.sadd("seen", *map(word, numbers))
    await client.aclose()
    return ManyUrlsReport(
        store="a plain set on Redis",
        dedup=kind,
        urls=urls,
        new=new[0],
        new_again=new[1],
        seconds=time.monotonic() - begun,
        cpu_s=_cpu_s(me) - cpu_s,
        server_cpu_s=_cpu_s(redis) - redis_s,
        peak_mb=_peak_bytes() / 1e6,
        bytes_per_url=(_memory(server) - memory) / urls,
    )


def _rules(dedup: str, urls: int) -> FrontierRules:
    capacity = max(urls // GROWTHS, 1000)
    return FrontierRules(dedup="bloom" if dedup == "bloom" else "exact", dedup_capacity=capacity)


def _lots(numbers: range, size: int) -> Iterable[range]:
    return (numbers[start : start + size] for start in range(0, len(numbers), size))


def _memory(server: RedisServer | None) -> int:
    if server is None:
        return int(psutil.Process().memory_info().rss)
    about = server.execute("INFO", "memory")
    return int(next(line for line in about.split() if line.startswith("used_memory:"))[12:])


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_bytes() -> float:
    """Not from `getrusage`: what the parent had before `exec` counts there."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


@contextmanager
def _heard() -> Iterator[list[logging.LogRecord]]:
    """What the product says meanwhile."""
    said: list[logging.LogRecord] = []
    listener = logging.Handler()
    listener.emit = said.append  # type: ignore[assignment, method-assign]
    voice = logging.getLogger("crawlfleet")
    voice.addHandler(listener)
    try:
        yield said
    finally:
        voice.removeHandler(listener)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="many-urls-") as name:
        yield Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.support.many_urls", description=__doc__)
    parser.add_argument("store", choices=("sqlite", "redis", "set"))
    parser.add_argument("dedup", choices=("exact", "bloom", "fingerprints", "urls"))
    parser.add_argument("urls", type=int)
    options = parser.parse_args()
    told = measured(options.store, options.dedup, options.urls)
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")


if __name__ == "__main__":
    main()
