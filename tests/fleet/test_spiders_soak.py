"""Scrapy projects that several workers share, for longer than usual; and older Scrapys."""

import asyncio
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.fleet.spiders_on_fleets import (
    DELAY_S,
    PROJECT,
    command,
    fetches,
    hosts_were_spared,
    is_whole,
    items_of,
    kill_worker,
    only_what_was_lost_was_asked_for_again,
    plain_scrapy,
    share,
    until_fetched,
)
from tests.support.local_fleet import LocalFleet, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("bundles"),
    pytest.mark.skipif(
        not os.environ.get("CRAWLFLEET_SOAK"), reason="takes long: CRAWLFLEET_SOAK=1"
    ),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    settings = {
        "CRAWLFLEET_WORKER_BUNDLES": "true",
        "CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true",
        "CRAWLFLEET_WORKER_SLOTS": "4",
    }
    with running(LocalFleet(tmp_path_factory.mktemp("spiders") / "fleet", **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=2))
        command(fleet, "deploy", str(PROJECT), "--name", "shop")
        yield fleet


def test_workers_of_a_spider_are_killed_at_random_and_it_gives_what_scrapy_gives(
    fleet: LocalFleet, tmp_path: Path
) -> None:
    kills, chance = 8, random.Random(3)
    spec = SiteSpec(
        pages=1500, hosts=12, first_host=20, links=10, page_bytes=1500, latency_ms=60, moved=0.1
    )

    async def scenario(site: ServedSite) -> list[str]:
        async with fleet.client() as client:
            id = await share(client, site, 4)
            for number in range(kills):
                await until_fetched(site, 100 + 150 * number)
                kill_worker(fleet)
                await asyncio.sleep(chance.uniform(0, 3))
            parts = await is_whole(client, id, site)
            await only_what_was_lost_was_asked_for_again(client, site, parts)
            hosts_were_spared(site)
            return await items_of(client, id)

    with ServedSite(spec) as site:
        items = asyncio.run(scenario(site))
        words = ("-a", f"url={site.spec.url(0)}")
        assert items == plain_scrapy(fleet, tmp_path, *words, spider="site")


def test_a_host_in_parts_is_asked_by_several_workers_within_its_limits(fleet: LocalFleet) -> None:
    spec = SiteSpec(
        pages=600,
        hosts=1,
        first_host=20,
        links=8,
        page_bytes=1500,
        least_latency_ms=150,
        latency_ms=150,
    )

    async def scenario(site: ServedSite) -> None:
        async with fleet.client() as client:
            settings = {"DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
            id = await share(client, site, 2, split_hosts=4, settings=settings)
            parts = await is_whole(client, id, site)
            shares = [part.result["metrics"]["pages_crawled"] for part in parts if part.result]
            assert min(shares) > spec.pages // 10, "each has its share of the host"
            assert max(hit.busy for hit in site.hits()) <= 4
            assert [len(times) for times in fetches(site).values()] == [1] * spec.pages

    with ServedSite(spec) as site:
        asyncio.run(scenario(site))


def test_a_spider_and_a_crawl_of_the_same_hosts_share_one_ledger(fleet: LocalFleet) -> None:
    spec = SiteSpec(
        pages=120, hosts=3, first_host=20, links=8, page_bytes=1500, failing=0.03, retry_after_s=3
    )

    async def scenario(site: ServedSite) -> None:
        async with fleet.client() as client:
            id = await share(client, site, 2, settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 1})
            politeness = {"delay_s": DELAY_S, "per_domain": None, "per_address": None}
            crawl = await client.submit(
                "web_crawl",
                {
                    "url": site.spec.url(0),
                    "scope": {"within": "any"},
                    "politeness": politeness,
                    "fetching": {"allow_private": True},
                },
            )
            await is_whole(client, id, site)
            assert (await client.wait(crawl.id)).status == "completed"
            hosts_were_spared(site, at_once=1)

    with ServedSite(spec) as site:
        asyncio.run(scenario(site))


# The oldest that is supported does not work with today's w3lib.
OLDEST = ("scrapy==2.11.2", "w3lib==2.1.2", "twisted==23.10.0")


@pytest.mark.parametrize("requirements", [OLDEST, ("scrapy==2.13.*",)])
def test_older_versions_of_scrapy_work_as_well(
    fleet: LocalFleet, tmp_path: Path, requirements: tuple[str, ...]
) -> None:
    name = f"shop-of-{len(requirements)}"
    shutil.copytree(PROJECT, tmp_path / name)
    (tmp_path / name / "requirements.txt").write_text("\n".join(requirements))
    command(fleet, "deploy", str(tmp_path / name), "--name", name)
    spec = SiteSpec(pages=80, hosts=4, first_host=20, links=8, page_bytes=1500, moved=0.1)

    async def scenario(site: ServedSite) -> None:
        async with fleet.client() as client:
            parameters = {
                "spider": "site",
                "arguments": {"url": site.spec.url(0)},
                "settings": {"DOWNLOAD_DELAY": DELAY_S},
                "workers": 2,
            }
            receipt = await client.submit("scrapy_spider", parameters, bundle=name)
            await is_whole(client, receipt.id, site)
            hosts_were_spared(site, at_once=4)
            listening = await client.submit("scrapy_spider", {"spider": "listening"}, bundle=name)
            await client.wait(listening.id)
            (item,) = [json.loads(line) for line in await items_of(client, listening.id)]
            assert item["seen_by"] == ""

    with ServedSite(spec) as site:
        asyncio.run(scenario(site))
