"""Crawls whose frontier the master keeps: whoever dies, the others go on from there."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.crawl_figures import assert_shown_everywhere, assert_used, truth_of
from tests.fleet.crawls_on_fleets import has_ended, submit, until
from tests.support.several_masters import SeveralMasters, running_all

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200 if SOAK else 300)]
SITE = SiteSpec(pages=600, hosts=6, links=12, page_bytes=1500, latency_ms=20)
UNCOMMITTED_S = 4.0
"""What was fetched so long before a death may be fetched again: a step, and a busy machine."""


def parameters(site: ServedSite, **more: Any) -> dict[str, Any]:
    return {
        "url": site.spec.url(0),
        "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
        "scope": {"within": "any"},
        "politeness": {
            "delay_s": 0.05,
            "obey_robots": False,
            "adaptive": False,
            "per_domain": None,
            "per_address": None,
        },
        "fetching": {"allow_private": True},
        **more,
    }


@contextlib.contextmanager
def fleet_in(folder: Path, *, workers: int, **settings: str) -> Iterator[SeveralMasters]:
    folder.mkdir(parents=True, exist_ok=True)
    fleet = SeveralMasters(
        folder,
        store=f"sqlite:///{folder / 'store.db'}",
        masters=1,
        workers=workers,
        CRAWLFLEET_WORKER_ALLOW_PRIVATE="true",
        TMPDIR=str(folder),
        **settings,
    )
    with running_all(fleet):
        yield fleet


async def until_fetched(site: ServedSite, pages: int, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while len(fetches(site)) < pages:
            await asyncio.sleep(0.05)


def fetches(site: ServedSite) -> dict[int, list[float]]:
    """When each page was asked for, by the server's own log."""
    found: dict[int, list[float]] = {}
    for hit in site.hits():
        if hit.page >= 0:
            found.setdefault(hit.page, []).append(hit.at)
    return found


def truth(spec: SiteSpec) -> list[tuple[str, str]]:
    found = (product for page in range(spec.pages) for product in spec.products(page))
    return sorted((product.title, product.price) for product in found)


async def items(client: Client, id: str) -> list[tuple[str, str]]:
    content = b"".join([chunk async for chunk in client.download_crawl(id, format="jsonl")])
    found = [json.loads(line) for line in content.decode().splitlines()]
    return sorted((item["title"], item["price"]) for item in found)


async def node_of(client: Client, id: str) -> str:
    """The name of the worker that a crawl runs on."""
    crawl = await client.crawl(id)
    assert crawl.node_id is not None
    return (await client.node(crawl.node_id)).name


def test_a_crawl_whose_node_is_gone_for_good_goes_on_elsewhere(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=2)
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            await until_fetched(site, 250)
            victim = await node_of(client, id)
            fleet.kill(victim)
            died = time.time()
            shutil.rmtree(fleet.folder(victim))

            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(SITE.pages))
            again = [times for times in asked.values() if len(times) > 1]
            assert max(died - min(times) for times in [*again, [died]]) <= UNCOMMITTED_S
            assert len(again) <= SITE.pages // 4
            attempts = [(each.node_id, each.status) for each in await client.executions(id)]
            assert {status for _, status in attempts} == {"lost", "completed"}, attempts
            whole = truth_of(site, len(truth(site.spec)))
            await assert_shown_everywhere(fleet, client, id, whole)
            await assert_used(client, whole)
            print(f"\n{len(again)} of {SITE.pages} pages were asked for twice")

    with ServedSite(SITE) as site, fleet_in(tmp_path, workers=2) as fleet:
        asyncio.run(scene(fleet, site))


def test_a_master_that_is_away_costs_no_work(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            id = await submit(client, parameters(site))
            for pages in (150, 350):
                await until_fetched(site, pages)
                fleet.kill("master-1")
                await asyncio.sleep(1.0)
                fleet.start("master-1")
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            assert [len(times) for times in fetches(site).values()] == [1] * SITE.pages
            assert len(await client.executions(id)) == 1
            whole = truth_of(site, len(truth(site.spec)), is_exact=True)
            await assert_shown_everywhere(fleet, client, id, whole)

    patience = {"CRAWLFLEET_SESSION_TIMEOUT_S": "60"}
    with ServedSite(SITE) as site, fleet_in(tmp_path, workers=1, **patience) as fleet:
        asyncio.run(scene(fleet, site))


WIDE = SiteSpec(pages=800, hosts=16, links=12, page_bytes=1500, latency_ms=20)


async def parts_of(client: Client, id: str) -> list[Any]:
    """The shards of a crawl, in order."""
    return [await client.task(each.id) async for each in client.tasks(parent_id=id)]


def test_several_nodes_work_for_one_crawl_and_fetch_each_page_once(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=4)
        async with fleet.client() as client:
            id = await submit(client, parameters(site, workers=4))
            await until_fetched(site, 300)
            running = await client.crawl(id)
            assert running.state == "processing"
            seen = await client.explain_url(id, site.spec.url(0))
            assert seen.record is not None
            assert seen.record.outcome == "ok"

            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            assert [len(times) for times in fetches(site).values()] == [1] * WIDE.pages
            whole = truth_of(site, len(truth(site.spec)), is_exact=True)
            await assert_shown_everywhere(fleet, client, id, whole)
            shares = [
                each.result["metrics"]["pages_crawled"]
                for each in await parts_of(client, id)
                if each.result
            ]
            assert sum(shares) == WIDE.pages
            assert min(shares) > WIDE.pages // 20, "each has its share of the hosts"
            print(f"\npages of each shard: {shares}")
            assert [crawl.task_id async for crawl in client.crawls()] == [id]

    with ServedSite(WIDE) as site, fleet_in(tmp_path, workers=4) as fleet:
        asyncio.run(scene(fleet, site))


def test_workers_that_are_killed_and_added_at_random_leave_every_item_once(tmp_path: Path) -> None:
    kills = 30 if SOAK else 4
    spec = SiteSpec(
        pages=400 + 250 * kills, hosts=16, links=12, page_bytes=1500, latency_ms=20, seed=2
    )
    chance = random.Random(7)

    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=3)
        deaths: list[float] = []
        async with fleet.client() as client:
            expected = {"fields": {"price": {"present": 1}}, "errors": 0}
            id = await submit(client, parameters(site, workers=4), expectations=expected)
            for number in range(kills):
                await until_fetched(site, 150 + 200 * number)
                assert not has_ended(await client.crawl(id)), "over before it could be killed"
                victim = chance.choice([w for w in fleet.workers if fleet.is_running(w)])
                fleet.kill(victim)
                deaths.append(time.time())
                shutil.rmtree(fleet.folder(victim), ignore_errors=True)
                await asyncio.sleep(chance.uniform(0, 1.5))
                fleet.start(chance.choice([w for w in fleet.workers if not fleet.is_running(w)]))
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(spec.pages))
            again = [times for times in asked.values() if len(times) > 1]
            for times in again:
                for before in times[:-1]:
                    assert any(-1 <= died - before <= UNCOMMITTED_S for died in deaths)
            whole = truth_of(site, len(truth(site.spec)))
            await assert_shown_everywhere(fleet, client, id, whole)
            await assert_used(client, whole)
            result = (await client.task(id)).result
            assert result is not None
            assert result["quality"]["verdict"] == "ok"
            (run,) = await client.task_quality(id)
            assert (run.items, run.pages) == (len(truth(site.spec)), spec.pages)
            assert run.fields["price"].filled == len(truth(site.spec))
            print(f"\n{kills} kills: {len(again)} of {spec.pages} pages were asked for again")

    with ServedSite(spec) as site, fleet_in(tmp_path, workers=4) as fleet:
        asyncio.run(scene(fleet, site))
