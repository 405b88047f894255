"""A real fleet on this machine that crawls a site: a master, and nodes with one executor each."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running

from bench.spread.turn import Item, Turn, judged
from bench.tasks.processes import Cost, cpu_s
from crawlfleet.client import Client
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec

LONGEST_S: Final = 900.0
ENDED: Final = frozenset({"completed", "failed", "cancelled", "timeout"})
WARM_UP: Final = SiteSpec(pages=60, hosts=12, page_bytes=2_000)


def asked(site: ServedSite, *, since: int = 0) -> list[Hit]:
    """The requests for pages, after so many of any kind."""
    return [hit for hit in site.hits()[since:] if hit.page >= 0]


def parameters(spec: SiteSpec, *, workers: int, frontier: str, concurrency: int) -> dict[str, Any]:
    return {
        "url": spec.url(0),
        "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
        "scope": {"within": "any" if spec.hosts > 1 else "host"},
        "politeness": {"delay_s": 0, "concurrency": concurrency},
        "fetching": {"allow_private": True},
        "workers": workers,
        "frontier": frontier,
    }


class Fleet:
    """A fleet that has crawled something before, so that all is loaded and connected."""

    def __init__(self, fleet: LocalFleet, *, workers: int, frontier: str, redis: int | None):
        self._fleet = fleet
        self._workers = workers
        self._frontier = frontier
        self._redis = redis

    def crawl(self, site: ServedSite, *, concurrency: int, kill_after: int | None = None) -> Turn:
        """Crawl a site; `kill_after` so many requests for pages, `kill -9` a node."""
        return asyncio.run(self._crawl(site, concurrency, kill_after))

    async def warm_up(self) -> None:
        with ServedSite(WARM_UP) as site:
            await self._crawl(site, 4, None)

    async def _crawl(self, site: ServedSite, concurrency: int, kill_after: int | None) -> Turn:
        known = len(site.hits())
        wanted = parameters(
            site.spec, workers=self._workers, frontier=self._frontier, concurrency=concurrency
        )
        async with self._fleet.client() as client:
            cost = Cost(self._groups())
            receipt = await client.submit(
                "web_crawl",
                wanted,
                max_retries=10,
                retry_policy={"initial_delay_s": 0.1, "max_delay_s": 0.2},
            )
            if kill_after is not None:
                await _until_asked(site, known + kill_after)
                self._kill_a_node()
            state = await _until_ended(client, receipt.id)
            cpu_s = cost.until(self._groups())
            if state != "completed":
                task = await client.task(receipt.id)
                raise RuntimeError(f"the crawl is {state}: {task.error}")
            items = await _items(client, receipt.id)
        return judged(site.spec, asked(site, since=known), items, cpu_s)

    def _kill_a_node(self) -> None:
        """The agent and its executor at once, of the busiest node; the launcher starts another."""
        families = [
            [agent, *agent.children(recursive=True)] for agent in self._fleet.processes("worker")
        ]
        for each in max(families, key=lambda family: cpu_s({"all": family})["all"]):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def _groups(self) -> Mapping[str, Sequence[psutil.Process]]:
        groups = {
            "master": self._fleet.processes("master"),
            "agents": self._fleet.processes("worker"),
            "executors": self._fleet.processes("executor"),
        }
        if self._redis is not None:
            groups["redis"] = [psutil.Process(self._redis)]
        return groups


@contextlib.contextmanager
def fleet(
    folder: Path,
    *,
    workers: int,
    frontier: str,
    redis: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Fleet]:
    """`redis` is the process of the Redis that has the frontier, if one has."""
    local = LocalFleet(
        folder,
        workers=workers,
        **STOCK_SESSION,
        CRAWLFLEET_WORKER_SLOTS="1",
        CRAWLFLEET_WORKER_ALLOW_PRIVATE="true",
        TMPDIR=str(folder),
        **(settings or {}),
    )
    with running(local):
        asyncio.run(local.until_ready(nodes=workers))
        made = Fleet(local, workers=workers, frontier=frontier, redis=redis)
        asyncio.run(made.warm_up())
        yield made


async def _until_asked(site: ServedSite, requests: int) -> None:
    async with asyncio.timeout(LONGEST_S):
        while len(site.hits()) < requests:
            await asyncio.sleep(0.05)


async def _until_ended(client: Client, id: str) -> str:
    async with asyncio.timeout(LONGEST_S):
        while (task := await client.task(id)).status not in ENDED:
            await asyncio.sleep(0.1)
    return str(task.status)


async def _items(client: Client, id: str) -> list[Item]:
    content = b"".join([chunk async for chunk in client.download_crawl(id, format="jsonl")])
    found = map(msgspec.json.decode, content.splitlines())
    return [(each["title"], each["price"]) for each in found]
