"""Who crawls with several processes, with which settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from tests.support.servers import redis_server

from bench.spread import ours, theirs
from bench.spread.turn import Turn
from crawlfleet.testing.known_site import ServedSite

Work = Callable[[ServedSite, Path, int, int, int | None], Turn]
"""Crawl a site in a folder with so many processes and so many requests to a host at once; and
after so many requests `kill -9` one of them."""


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    settings: str
    counted: str
    """Whose CPU counts."""
    work: Work
    pages: int
    """Of the site that it crawls when CPU is measured; fewer for slow ones, since rates count."""
    is_peer: bool = False


def _at_master(
    site: ServedSite, folder: Path, processes: int, concurrency: int, kill_after: int | None
) -> Turn:
    with ours.fleet(folder, workers=processes, frontier="master") as fleet:
        return fleet.crawl(site, concurrency=concurrency, kill_after=kill_after)


def _on_redis(
    site: ServedSite, folder: Path, processes: int, concurrency: int, kill_after: int | None
) -> Turn:
    with (
        redis_server() as server,
        ours.fleet(
            folder,
            workers=processes,
            frontier="redis",
            redis=server.pid,
            settings={"CRAWLFLEET_FRONTIER": server.url()},
        ) as fleet,
    ):
        return fleet.crawl(site, concurrency=concurrency, kill_after=kill_after)


def _scrapy_redis(kind: str) -> Work:
    def work(
        site: ServedSite, folder: Path, processes: int, concurrency: int, kill_after: int | None
    ) -> Turn:
        with theirs.spiders(kind, folder, processes=processes, concurrency=concurrency) as spiders:
            return spiders.crawl(site, kill_after=kill_after)

    return work


OURS: Final = Contender(
    name="master",
    title="crawlfleet, master",
    settings="`up` with as many nodes, each with one slot; `workers` as many, `frontier: master`,"
    " `delay_s: 0`, `concurrency: 16` where CPU is measured; robots.txt obeyed, adaptive"
    " politeness, retries, cookies, the fleet's ledger of hosts; frontier and output durable"
    " (SQLite, `synchronous=FULL`)",
    counted="master, agents of the nodes, executors",
    work=_at_master,
    pages=40_000,
)
CONTENDERS: Final = (
    OURS,
    Contender(
        name="redis",
        title="crawlfleet, Redis",
        settings="the same with `frontier: redis` (`appendonly yes`, `appendfsync always`)",
        counted="master, agents of the nodes, executors, Redis",
        work=_on_redis,
        pages=40_000,
    ),
    Contender(
        name="scrapy-redis",
        title="scrapy-redis, tuned",
        settings="asyncio reactor with uvloop, hiredis, FIFO queue, 64 requests at once and 16 a"
        " host, `CONCURRENT_ITEMS` 8; no log, retries, cookies, redirects, telnet, statistics,"
        " robots.txt; its own link extractor, selectors and JSON lines; Redis with `appendonly yes`"
        " and `appendfsync everysec`",
        counted="spiders, Redis",
        work=_scrapy_redis("tuned"),
        pages=2_000,
        is_peer=True,
    ),
    Contender(
        name="scrapy-redis-lxml",
        title="scrapy-redis, lxml by hand",
        settings="the same without any middleware or extension; links and fields by lxml, lines"
        " written by hand, and each process tells Redis of a URL once",
        counted="spiders, Redis",
        work=_scrapy_redis("lxml"),
        pages=2_000,
        is_peer=True,
    ),
)
