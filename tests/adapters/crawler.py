"""A process that crawls an endless graph and keeps a journal of its own, until it is killed.

Each line of the journal is the number of an acknowledged commit and the URLs that it visited; it
is on the disk before the next commit begins.
"""

import asyncio
import multiprocessing
import os
import random
import signal
from pathlib import Path

from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.model.crawl.frontier import Commit, FrontierRules, HostCommit, Link, UrlRetry, Visit
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.frontier_suite.harness import link

CHILDREN = multiprocessing.get_context("forkserver")
RULES = FrontierRules(max_depth=6)
NODES = 100_000
NOW = 1_000.0


def url(number: int) -> Link:
    return link(str(number), f"https://{number % 7}.example", number % 3)


def links(number: int) -> list[Link]:
    chance = random.Random(number)
    return [url(chance.randrange(NODES)) for _ in range(chance.randrange(12))]


def number_of(text: str) -> int:
    return int(text.rpartition("/")[2])


async def crawl(path: Path, journal: Path, seed: int) -> None:
    chance = random.Random(seed)
    frontier = SqliteFrontier(path=path, rules=RULES)
    receipts = await frontier.open()
    count = receipts.get("count", 0)
    await frontier.add([url(0), url(1)], NOW)
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        now = NOW + count
        leases = await frontier.lease("w", hosts=3, urls=4, held={}, now=now)
        parts, visited = [], []
        for lease in leases:
            visits, retries = [], []
            for waiting in lease.urls:
                number = number_of(waiting.url)
                if chance.random() < 0.1:
                    due = now + chance.randrange(5)
                    retries.append(UrlRetry(waiting.id, Outcome.TIMEOUT, 0, now, due))
                elif chance.random() < 0.9:
                    visits.append(Visit(waiting.id, Outcome.OK, 200, now, links(number)))
                    visited.append(number)
            parts.append(
                HostCommit(
                    host=lease.host,
                    token=lease.token,
                    visits=visits,
                    retries=retries,
                    release=True,
                )
            )
        count += 1
        assert not await frontier.commit("w", Commit(hosts=parts, receipts={"count": count}))
        os.write(descriptor, f"{count} {' '.join(map(str, visited))}\n".encode())
        os.fsync(descriptor)


def run_in_child(path: Path, journal: Path, seed: int) -> None:
    asyncio.run(crawl(path, journal, seed))


def crawl_until_killed(path: Path, journal: Path, seed: int, delay_s: float) -> None:
    """Kill it that long after its first line in this life."""
    before = journal.stat().st_size if journal.exists() else 0
    child = CHILDREN.Process(target=run_in_child, args=(path, journal, seed))
    child.start()
    while child.is_alive() and not (journal.exists() and journal.stat().st_size > before):
        child.join(0.002)
    child.join(delay_s)
    child.kill()
    child.join(10)
    assert child.exitcode == -signal.SIGKILL
