"""Crawls whose frontier the master keeps: whoever dies, the others go on from there."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl_views import CrawlView
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from crawlfleet.testing.several_masters import SeveralMasters, running_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
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


async def submit(client: Client, site: ServedSite, **more: Any) -> str:
    receipt = await client.submit(
        "web_crawl",
        parameters(site, **more),
        max_retries=50,
        retry_policy={"initial_delay_s": 0.1, "max_delay_s": 0.2},
    )
    return receipt.id


async def until(
    client: Client, id: str, holds: Callable[[CrawlView], bool], within_s: float = 120.0
) -> CrawlView:
    async with asyncio.timeout(within_s):
        while True:
            with contextlib.suppress(CrawlfleetError):
                crawl = await client.crawl(id)
                if holds(crawl):
                    return crawl
            await asyncio.sleep(0.05)


def has_ended(crawl: CrawlView) -> bool:
    return crawl.state in {"completed", "failed", "cancelled", "timeout"}


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
            id = await submit(client, site)
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
            result = (await client.task(id)).result
            assert result is not None
            assert result["data"]["items"] == len(truth(site.spec))
            assert result["metrics"]["pages_crawled"] == SITE.pages
            print(f"\n{len(again)} of {SITE.pages} pages were asked for twice")

    with ServedSite(SITE) as site, fleet_in(tmp_path, workers=2) as fleet:
        asyncio.run(scene(fleet, site))


def test_a_master_that_is_away_costs_no_work(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, site: ServedSite) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            id = await submit(client, site)
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

    patience = {"CRAWLFLEET_SESSION_TIMEOUT_S": "60"}
    with ServedSite(SITE) as site, fleet_in(tmp_path, workers=1, **patience) as fleet:
        asyncio.run(scene(fleet, site))
