"""The work that every frontier is given: rounds of leases and of commits that wait for the disk.

A round leases 400 URLs of 50 hosts and commits their visits, each with 20 links of which one is
new and the others are known ones, taken at random from the whole crawl.
"""

import random
import time
from typing import Final, NamedTuple

import msgspec
import psutil
from tests.support.many_urls import HOSTS, LINKS, PAGES, START, WORKER, link, visits

from crawlfleet.model.crawl.frontier import Commit, FrontierRules, Link
from crawlfleet.ports.frontier.frontier import Frontier

NEW: Final = 1
KINDS: Final = ("unlimited", "limited depth", "bloom")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one store, and one size and kind of crawl."""

    store: str
    kind: str
    known: int
    pages_per_s: float
    """By the clock, one step after another."""
    client_us: float
    """CPU of a page in the process that asks; of SQLite, that is all of it."""
    server_us: float = 0.0
    """CPU of a page in Redis, or in the master."""
    memory_bytes: float
    """Of a URL, in the process that has the frontier."""
    disk_bytes: float
    """Of a URL, in files."""
    load_s: float | None = None
    """To open a crawl of that size."""
    floor_pages_per_s: float
    floor_us: float
    """CPU of a page of the bare statements that store as much and decide nothing."""
    floor_bytes: float
    """Of a URL, in the memory of Redis, or in the file."""


def rules(kind: str) -> FrontierRules:
    return FrontierRules(
        max_depth=1000 if kind == "limited depth" else None,
        dedup="bloom" if kind == "bloom" else "exact",
        dedup_capacity=1_000_000,
    )


def make_batch(chance: random.Random, known: int, number: int) -> list[list[Link]]:
    """The links of the pages of a round; they are as fresh as those of pages just parsed."""
    first = known + number * PAGES
    batch = [[link(chance.randrange(known)) for _ in range(LINKS - NEW)] for _ in range(PAGES)]
    for page, links in enumerate(batch):
        links.insert(chance.randrange(LINKS), link(first + page))
    return batch


class Spent(NamedTuple):
    """Seconds that rounds took."""

    pages: int
    wall: float
    client: float
    server: float

    def figures(self) -> dict[str, float]:
        """As they stand in `Figures`."""
        return {
            "pages_per_s": self.pages / self.wall,
            "client_us": self.client / self.pages * 1e6,
            "server_us": self.server / self.pages * 1e6,
        }


async def work(
    frontier: Frontier, known: int, rounds: int, server: psutil.Process | None = None
) -> Spent:
    """Lease and commit; links and visits are made aside. `server` is whose CPU counts, too."""
    chance = random.Random(1)
    held: dict[str, int] = {}
    wall = client = asked = 0.0
    urls, pages = PAGES // HOSTS, 0
    for number in range(rounds):
        batch = make_batch(chance, known, number)
        began, began_cpu, began_server = _now(server)
        leases = await frontier.lease(WORKER, hosts=HOSTS, urls=urls, held=held, now=START)
        ended, ended_cpu, ended_server = _now(server)
        wall, client = wall + ended - began, client + ended_cpu - began_cpu
        asked += ended_server - began_server
        held = {lease.host: urls for lease in leases}
        parts = [visits(lease, batch, release=False) for lease in leases]
        pages += sum(len(part.visits) for part in parts)
        commits = [
            Commit(hosts=mine, receipts={"pages.jsonl": {"length": 123_456}})
            for partition in range(frontier.partitions)
            if (mine := [part for part in parts if frontier.partition_of(part.host) == partition])
        ]
        began, began_cpu, began_server = _now(server)
        for commit in commits:
            assert not await frontier.commit(WORKER, commit)
        ended, ended_cpu, ended_server = _now(server)
        wall, client = wall + ended - began, client + ended_cpu - began_cpu
        asked += ended_server - began_server
    return Spent(pages, wall, client, asked)


def _now(server: psutil.Process | None) -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), cpu_s(server) if server else 0.0


def rounds_of(known: int, rounds: int) -> int:
    """A small crawl cannot lend more than it has waiting."""
    return min(rounds, known * 9 // 10 // PAGES)


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
