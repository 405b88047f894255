"""One host that several workers visit at once: its own log is the judge."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.fleet.crawls_on_fleets import has_ended, submit, until
from tests.fleet.test_redis_crawls import on_redis
from tests.fleet.test_shared_frontier import (
    fetches,
    items,
    parameters,
    parts_of,
    truth,
    until_fetched,
)
from tests.support.several_masters import SeveralMasters

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
AT_ONCE = 8
SITE = SiteSpec(pages=300, hosts=1, links=12, page_bytes=1500, latency_ms=90, least_latency_ms=50)


def one_host(site: ServedSite, **more: Any) -> dict[str, Any]:
    asked = parameters(site, workers=3, **more)
    asked["scope"]["within"] = "host"
    asked["politeness"] |= {"delay_s": 0, "concurrency": AT_ONCE, "obey_robots": True}
    return asked


async def check(client: Client, id: str, site: ServedSite) -> list[float]:
    """The crawl has all, and the host was never asked for too much; the pages of each worker."""
    ended = await until(client, id, has_ended)
    assert ended.state == "completed"
    assert await items(client, id) == truth(site.spec)
    assert set(fetches(site)) == set(range(site.spec.pages))
    busiest = max(hit.busy for hit in site.hits())
    assert busiest <= AT_ONCE
    parts = [each.result for each in await parts_of(client, id) if each.result]
    shares = [each["metrics"]["pages_crawled"] for each in parts]
    assert sum(shares) == site.spec.pages
    print(f"\n{site.spec.pages} pages by {shares}, {busiest} at once")
    return shares


def test_workers_share_a_host_within_its_limits(tmp_path: Path) -> None:
    async def together(
        fleet: SeveralMasters, client: Client, frontier: str, site: ServedSite
    ) -> str:
        id = await submit(client, one_host(site, frontier=frontier))
        await until_fetched(site, site.spec.pages // 3)
        work = await client.crawl_work(id)
        names = {each.host for each in work.hosts}
        assert len(names) == AT_ONCE, "each part has its line"
        assert {name.partition("#")[0] for name in names} == {site.spec.host(0)}
        figures = (await client.crawl(id)).figures
        assert figures is not None
        assert {each.host for each in figures.hosts} <= {site.spec.host(0)}
        return id

    async def scene(fleet: SeveralMasters) -> None:
        await fleet.until_ready("master-1", nodes=3)
        async with fleet.client() as client:
            with ServedSite(SITE) as site:
                id = await together(fleet, client, "redis", site)
                shares = await check(client, id, site)
                assert min(shares) > site.spec.pages // 20, "each has a part of the host"
                assert all(len(times) == 1 for times in fetches(site).values())
                assert sum(hit.page == -1 for hit in site.hits()) <= 3, "once a worker"
            with ServedSite(SITE) as site:
                id = await together(fleet, client, "master", site)
                fleet.kill("worker-2")
                await check(client, id, site)
                again = [times for times in fetches(site).values() if len(times) > 1]
                assert len(again) <= site.spec.pages // 4, "what it had fetched and not committed"

    with on_redis(tmp_path, workers=3) as (fleet, _):
        asyncio.run(scene(fleet))
