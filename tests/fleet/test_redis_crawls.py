"""Crawls of a fleet whose frontier is on Redis: all nodes work, whatever dies, and Redis too.

The judges are the server's own log and the known site: each page once, no host above its limits.
"""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl_figures import assert_shown_everywhere, truth_of
from tests.fleet.crawls_on_fleets import has_ended, submit, until
from tests.fleet.test_shared_frontier import (
    fetches,
    fleet_in,
    items,
    parameters,
    parts_of,
    truth,
    until_fetched,
)
from tests.support.servers import RedisServer, redis_server
from tests.support.several_masters import SeveralMasters

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if SOAK else 300)]
DELAY_S = 0.1
NOISE_S = 0.15
"""The server reads its clock when a busy machine lets it."""
UNCOMMITTED_S = 4.0
"""What was fetched so long before a death may be fetched again: a step, and a busy machine."""
SAVED_S = 2.0
"""A checkpoint is at most so old, and as old again as it takes to be made."""
PASSWORD = "not-for-the-logs"


@contextlib.contextmanager
def on_redis(
    folder: Path, *, workers: int, **settings: str
) -> Iterator[tuple[SeveralMasters, RedisServer]]:
    with redis_server() as redis:
        admit(redis)
        url = redis.url().replace("redis://", f"redis://fleet:{PASSWORD}@")
        with fleet_in(
            folder,
            workers=workers,
            CRAWLFLEET_FRONTIER=url,
            CRAWLFLEET_LEDGER=redis.url(),
            **settings,
        ) as fleet:
            yield fleet, redis


def admit(redis: RedisServer) -> None:
    """Let the fleet in by its password; a server that was started anew has forgotten it."""
    redis.execute("ACL", "SETUSER", "fleet", "on", f">{PASSWORD}", "~*", "+@all")


def kept(redis: RedisServer) -> str:
    """The keys of crawls, as Redis tells them."""
    return redis.execute("KEYS", "crawlfleet:{task*")


def assert_polite(site: ServedSite) -> None:
    """No host was asked above its limit, by its own log."""
    hosts: dict[int, list[Any]] = {}
    for hit in site.hits():
        hosts.setdefault(hit.host, []).append(hit)
    for host, hits in hosts.items():
        times = sorted(hit.at for hit in hits)
        assert max(hit.busy for hit in hits) <= 1, f"host {host} was asked twice at once"
        assert times[-1] - times[0] >= (len(times) - 1) * DELAY_S - NOISE_S
        # One may seem late to a busy server, not all.
        soon = sum(b - a < DELAY_S / 2 for a, b in pairwise(times))
        assert soon <= len(times) // 50 + 1, f"host {host} was asked too soon {soon} times"


def polite(site: ServedSite, **more: Any) -> dict[str, Any]:
    asked = parameters(site, **more)
    asked["politeness"]["delay_s"] = DELAY_S
    return asked


def executors_of(fleet: SeveralMasters, worker: str) -> list[psutil.Process]:
    return fleet.process(worker).children(recursive=True)


def test_four_nodes_share_a_crawl_and_one_that_is_stopped_harms_nobody(tmp_path: Path) -> None:
    spec = SiteSpec(pages=400, hosts=16, links=12, page_bytes=1500, latency_ms=20)

    async def scene(fleet: SeveralMasters, redis: RedisServer, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=4)
        async with fleet.client() as client:
            id = await submit(client, polite(site, workers=4, frontier="redis"))
            await until_fetched(site, 120)
            assert kept(redis) != "*0"
            seen = await client.explain_url(id, site.spec.url(0))
            assert seen.record is not None
            assert seen.record.outcome == "ok"
            figures = (await client.crawl(id)).figures
            assert figures is not None
            work = await client.crawl_work(id)
            holders = [each for part in work.partitions for each in part.holders]
            assert [part.number for part in work.partitions] == [*range(work.partitions_total)]
            assert {each.shard for each in holders} <= {0, 1, 2, 3}
            assert sum(each.hosts or 0 for each in work.shards) == sum(h.hosts for h in holders) > 0
            assert {each.host for each in work.hosts} <= {*map(site.spec.host, range(spec.hosts))}

            stopped = executors_of(fleet, "worker-2")
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(3.0)
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(spec.pages))
            assert sum(len(times) - 1 for times in asked.values()) <= 12, "what it had leased"
            assert_polite(site)
            await assert_shown_everywhere(fleet, client, id, truth_of(site, len(truth(site.spec))))
            shares = [
                each.result["metrics"]["pages_crawled"]
                for each in await parts_of(client, id)
                if each.result
            ]
            assert sum(shares) == spec.pages
            assert min(shares) > spec.pages // 20, "each has its share of the hosts"

            # Redis is rid of it, and what became of a page can still be told.
            async with asyncio.timeout(30):
                while kept(redis) != "*0":
                    await asyncio.sleep(0.2)
            seen = await client.explain_url(id, site.spec.url(1))
            assert seen.record is not None
            assert (seen.record.status, seen.record.outcome) == ("done", "ok")
        for name in ("master-1", *fleet.workers):
            assert PASSWORD not in fleet.log(name)

    with ServedSite(spec) as site, on_redis(tmp_path, workers=4) as (fleet, redis):
        asyncio.run(scene(fleet, redis, site))


def test_whatever_dies_every_item_is_there_once(tmp_path: Path) -> None:
    """Workers with their disks, the master, and Redis itself, at random."""
    kills = 30 if SOAK else 4
    spec = SiteSpec(
        pages=150 + 150 * kills, hosts=12, links=12, page_bytes=1500, latency_ms=20, seed=3
    )
    chance = random.Random(11)

    async def scene(fleet: SeveralMasters, redis: RedisServer, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=3)
        deaths: list[tuple[float, float]] = []
        """From when to when somebody was away who could not commit what it had fetched. Redis is
        none of them: it keeps what it has, and is waited for."""
        async with fleet.client() as client:
            id = await submit(client, polite(site, workers=4, frontier="redis"))
            for number in range(kills):
                await until_fetched(site, 80 + 110 * number)
                assert not has_ended(await client.crawl(id)), "over before it could be killed"
                if number % 4 == 1:
                    redis.stop("immediate")
                    await asyncio.sleep(chance.uniform(0.1, 1.5))
                    redis.start()
                    admit(redis)
                elif number % 4 == 3:
                    begun = time.time()
                    fleet.kill("master-1")
                    await asyncio.sleep(chance.uniform(0, 1.0))
                    fleet.start("master-1")
                    await fleet.until_ready("master-1")
                    deaths.append((begun, time.time()))
                else:
                    victim = chance.choice([w for w in fleet.workers if fleet.is_running(w)])
                    fleet.kill(victim)
                    deaths.append((time.time(), time.time()))
                    shutil.rmtree(fleet.folder(victim), ignore_errors=True)
                    await asyncio.sleep(chance.uniform(0, 1.5))
                    idle = [w for w in fleet.workers if not fleet.is_running(w)]
                    fleet.start(chance.choice(idle))
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(spec.pages))
            again = [times for times in asked.values() if len(times) > 1]
            unexplained = [
                before
                for times in again
                for before in times[:-1]
                if not any(a - UNCOMMITTED_S <= before <= b + 1.0 for a, b in deaths)
            ]
            assert not unexplained, (sorted(unexplained), deaths)
            assert_polite(site)
            await assert_shown_everywhere(fleet, client, id, truth_of(site, len(truth(site.spec))))
            print(f"\n{kills} deaths: {len(again)} of {spec.pages} pages were asked for again")

    # Only those that are killed are to be missed: on a busy machine one that lives may take more
    # than the usual 1.5 s to be heard of again when its connection broke.
    patience = {"CRAWLFLEET_SESSION_TIMEOUT_S": "20", "CRAWLFLEET_SESSION_RECONNECT_S": "6"}
    with ServedSite(spec) as site, on_redis(tmp_path, workers=4, **patience) as (fleet, redis):
        asyncio.run(scene(fleet, redis, site))


def test_an_emptied_redis_costs_what_was_not_saved_and_no_item(tmp_path: Path) -> None:
    spec = SiteSpec(pages=640, hosts=8, links=12, page_bytes=1500, latency_ms=20, seed=4)

    async def scene(fleet: SeveralMasters, redis: RedisServer, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=3)
        async with fleet.client() as client:
            id = await submit(client, polite(site, workers=3))
            await until_fetched(site, 420)
            redis.empty()
            admit(redis)
            emptied = time.time()
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(spec.pages))
            again = [times for times in asked.values() if len(times) > 1]
            oldest = max([emptied - min(times) for times in again], default=0.0)
            assert oldest <= 2 * SAVED_S + UNCOMMITTED_S
            assert len(again) < 350, "not from the beginning"
            assert_polite(site)
            await assert_shown_everywhere(fleet, client, id, truth_of(site, len(truth(site.spec))))
            print(f"\n{len(again)} of {spec.pages} pages were asked for again")

    with ServedSite(spec) as site, on_redis(tmp_path, workers=3) as (fleet, redis):
        asyncio.run(scene(fleet, redis, site))


def test_a_fleet_without_redis_says_what_to_set(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            id = await submit(client, parameters(site, frontier="redis"))
            await until(client, id, has_ended)
            task = await client.task(id)
            assert task.status == "failed"
            assert task.error is not None
            assert "set `frontier` at the masters" in task.error.message

    with ServedSite(SiteSpec(pages=3)) as site, fleet_in(tmp_path, workers=1) as fleet:
        asyncio.run(scene(fleet, site))
