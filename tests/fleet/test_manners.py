"""Two crawls on two nodes visit the same hosts: the server's own log is the judge."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlfleet.client import Client
from crawlfleet.testing.known_site import Hit, ServedSite, SiteSpec
from tests.support.local_fleet import LocalFleet, running

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if SOAK else 240)]
NOISE_S = 0.15
"""The server reads its clock when a busy machine lets it."""
DELAY_S = 0.25


@contextlib.asynccontextmanager
async def fleet_of(folder: Path, **settings: str) -> AsyncIterator[tuple[LocalFleet, Client]]:
    one_each = {"CRAWLFLEET_WORKER_SLOTS": "1", "CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true"}
    fleet = LocalFleet(folder, **{**one_each, **settings})
    with running(fleet):
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client, asyncio.timeout(600 if SOAK else 200):
            yield fleet, client


async def crawl(client: Client, site: ServedSite, **politeness: Any) -> str:
    receipt = await client.submit(
        "web_crawl",
        {
            "url": site.spec.url(0),
            "scope": {"within": "any"},
            "politeness": {"obey_robots": False, "adaptive": False, **politeness},
            "fetching": {"allow_private": True},
        },
        max_retries=20,
        retry_policy={"initial_delay_s": 0.1, "max_delay_s": 0.2},
    )
    return receipt.id


async def until_both_run(client: Client, site: ServedSite, ids: list[str]) -> None:
    """Each on a node of its own, and with something to show for it."""
    while True:
        tasks = [await client.task(id) for id in ids]
        assert not any(task.status in {"completed", "failed"} for task in tasks), "too quick"
        nodes = {task.assigned_node for task in tasks if task.status == "processing"}
        if len(nodes) == len(ids) and len(site.hits()) > 4:
            return
        await asyncio.sleep(0.1)


def executors_of(fleet: LocalFleet, number: int) -> list[psutil.Process]:
    """The processes that work for one of the nodes."""
    worker = sorted(fleet.processes("worker"), key=lambda each: each.pid)[number]
    ours = {each.pid for each in fleet.processes("executor")}
    return [each for each in worker.children(recursive=True) if each.pid in ours]


async def stop_for(processes: list[psutil.Process], seconds: float) -> None:
    """SIGSTOP, and SIGCONT after so long."""
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.suspend()
    await asyncio.sleep(seconds)
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()


def by_host(hits: list[Hit]) -> dict[int, list[Hit]]:
    hosts: dict[int, list[Hit]] = {}
    for hit in hits:
        hosts.setdefault(hit.host, []).append(hit)
    return hosts


def assert_polite(site: ServedSite, *, delay_s: float, concurrency: int) -> None:
    for host, hits in by_host(site.hits()).items():
        times = [hit.at for hit in hits]
        if delay_s:
            # A busy machine may let one go late, or read its clock late: then the next seems early.
            # Without a ledger many nearly meet, and so do those that are asked on old grants.
            near = [b - a for a, b in pairwise(times) if b - a < delay_s / 2]
            assert len(near) <= 1, f"host {host} was asked too soon: {near}"
            assert times[-1] - times[0] >= (len(times) - 1) * delay_s - NOISE_S
        assert max(hit.busy for hit in hits) <= concurrency


async def finished(client: Client, site: ServedSite, ids: list[str]) -> None:
    for task in await client.wait_for_all(ids):
        assert task.status == "completed", task.error
    visited = {hit.page for hit in site.hits()}
    assert visited >= {*range(site.spec.pages)}


def test_hosts_are_asked_no_oftener_while_workers_are_stopped_and_go_on(tmp_path: Path) -> None:
    spec = SiteSpec(pages=400 if SOAK else 72, hosts=3, page_bytes=1500, latency_ms=20)

    async def scene(site: ServedSite) -> None:
        async with fleet_of(tmp_path) as (fleet, client):
            ids = [await crawl(client, site, delay_s=DELAY_S) for _ in range(2)]
            await until_both_run(client, site, ids)
            for stopped, seconds in ((0, 2.0), (1, 13.0), (0, 0.5)):
                await asyncio.sleep(1.0)
                await stop_for(executors_of(fleet, stopped), seconds)
            uses = await client.hosts()
            assert {each.key.partition(":")[0] for each in uses.items} >= {"host", "address"}
            await finished(client, site, ids)
            assert_polite(site, delay_s=DELAY_S, concurrency=1)

    with ServedSite(spec, is_prompt=True) as site:
        asyncio.run(scene(site))


def test_whole_worker_that_was_stopped_and_lost_its_session_asks_nobody(tmp_path: Path) -> None:
    spec = SiteSpec(pages=200 if SOAK else 50, hosts=2, page_bytes=1500, latency_ms=20)

    async def scene(site: ServedSite) -> None:
        async with fleet_of(tmp_path) as (fleet, client):
            ids = [await crawl(client, site, delay_s=DELAY_S) for _ in range(2)]
            await until_both_run(client, site, ids)
            worker = fleet.processes("worker")[0]
            # Its session is over meanwhile, and its crawl is another's.
            await stop_for([worker, *worker.children(recursive=True)], 6.0)
            await finished(client, site, ids)
            assert_polite(site, delay_s=DELAY_S, concurrency=1)

    with ServedSite(spec, is_prompt=True) as site:
        asyncio.run(scene(site))


def test_retry_after_that_one_node_sees_is_held_to_by_the_other(tmp_path: Path) -> None:
    spec = SiteSpec(pages=30, hosts=1, page_bytes=1500, failing=0.1, retry_after_s=4)

    async def scene(site: ServedSite) -> None:
        failing = {page for page in range(spec.pages) if site.spec.fails_first(page)}
        assert failing
        async with fleet_of(tmp_path) as (_, client):
            ids = [await crawl(client, site, delay_s=DELAY_S, retry_delay_s=0.1) for _ in range(2)]
            await until_both_run(client, site, ids)
            await finished(client, site, ids)
            refused: set[int] = set()
            for before, after in pairwise(site.hits()):
                if before.page in failing and before.page not in refused:
                    refused.add(before.page)
                    assert after.at - before.at >= 4 - NOISE_S
            assert refused == failing

    with ServedSite(spec, is_prompt=True) as site:
        asyncio.run(scene(site))


def test_master_that_is_killed_lets_no_host_be_asked_too_early(tmp_path: Path) -> None:
    spec = SiteSpec(pages=50 if SOAK else 36, hosts=2, page_bytes=1500, latency_ms=20)

    async def scene(site: ServedSite) -> None:
        async with fleet_of(tmp_path) as (fleet, client):
            ids = [await crawl(client, site, delay_s=DELAY_S) for _ in range(2)]
            await until_both_run(client, site, ids)
            await asyncio.sleep(2.0)
            fleet.kill("master")
            await fleet.until_ready(nodes=2)
            await finished(client, site, ids)
            assert_polite(site, delay_s=DELAY_S, concurrency=1)

    with ServedSite(spec, is_prompt=True) as site:
        asyncio.run(scene(site))


@pytest.mark.parametrize("shards", [1, 2] if SOAK else [2])
def test_lists_and_crawls_that_visit_the_same_hosts_take_turns(tmp_path: Path, shards: int) -> None:
    spec = SiteSpec(pages=80 if SOAK else 24, hosts=2, page_bytes=1500, latency_ms=20)

    async def scene(site: ServedSite) -> None:
        two_each = {"CRAWLFLEET_WORKER_SLOTS": "2"}
        async with fleet_of(tmp_path, **two_each) as (_, client):
            urls = [site.spec.url(page) for page in range(spec.pages)]
            listed = {"urls": urls, "delay_s": DELAY_S, "shards": shards}
            ids = [
                await crawl(client, site, delay_s=DELAY_S),
                (await client.submit("http_fetch", listed)).id,
            ]
            uses: set[str] = set()
            while not uses:
                found = (await client.hosts("host:")).items
                uses = {key.key for key in found if len({*key.used_by, *key.waiting}) > 1}
                await asyncio.sleep(0.05)
            await finished(client, site, ids)
            result = (await client.task(ids[1])).result
            assert result is not None
            assert (result["data"]["fetched"], result["data"]["failed"]) == (spec.pages, 0)
            assert len([hit for hit in site.hits() if hit.page >= 0]) == 2 * spec.pages
            assert_polite(site, delay_s=DELAY_S, concurrency=1)

    with ServedSite(spec, is_prompt=True) as site:
        asyncio.run(scene(site))
