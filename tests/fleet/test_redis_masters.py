"""Two masters on one PostgreSQL, and a crawl whose frontier is on a Redis Cluster."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.adapters.redis_nodes import redis_cluster
from tests.fleet.crawls_on_fleets import has_ended, submit, until
from tests.fleet.test_shared_frontier import fetches, items, parameters, truth, until_fetched
from tests.support.servers import RedisServer, postgres_server
from tests.support.several_masters import SeveralMasters, running_all

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
KILLS = 6 if SOAK else 1
PAGES = 12_000 if SOAK else 300
"""Workers go on while nobody leads: there must be enough left for the last death."""
UNCOMMITTED_S = 4.0
"""What was fetched so long before a death may be fetched again: a step, and a busy machine."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200 if SOAK else 300),
    pytest.mark.xdist_group("redis-cluster"),
]


def test_next_leader_answers_for_the_frontiers_that_the_last_one_began(tmp_path: Path) -> None:
    spec = SiteSpec(pages=PAGES, hosts=6, links=12, page_bytes=1500, latency_ms=20)

    async def scene(
        fleet: SeveralMasters, nodes: tuple[RedisServer, RedisServer], site: ServedSite
    ) -> None:
        for name in fleet.urls:
            await fleet.until_ready(name, nodes=len(fleet.workers))
        deaths: list[tuple[float, float]] = []
        async with fleet.client() as client:
            id = await submit(client, parameters(site, workers=2))
            for number in range(KILLS):
                await until_fetched(site, 80 + 120 * number, within_s=120.0)
                assert not has_ended(await client.crawl(id)), "over before it could be killed"
                for node in nodes:
                    assert id in node.execute("KEYS", "crawlfleet:{task*"), "each has a part"
                leader = await fleet.leader()
                begun = time.time()
                fleet.kill(leader)
                await fleet.leader(other_than=leader)
                fleet.start(leader)
                deaths.append((begun, time.time()))
            ended = await until(client, id, has_ended)
            assert ended.state == "completed"
            assert await items(client, id) == truth(site.spec)
            asked = fetches(site)
            assert set(asked) == set(range(spec.pages))
            unexplained = [
                before
                for times in asked.values()
                for before in times[:-1]
                if not any(a - UNCOMMITTED_S <= before <= b + 1.0 for a, b in deaths)
            ]
            assert not unexplained, (sorted(unexplained), deaths)
            result = (await client.task(id)).result
            assert result is not None
            assert result["metrics"]["pages_crawled"] == spec.pages
            async with asyncio.timeout(60):
                while any(node.execute("KEYS", "crawlfleet:{task*") != "*0" for node in nodes):
                    await asyncio.sleep(0.2)
            again = sum(len(times) - 1 for times in asked.values())
            print(f"\n{KILLS} leaders killed: {again} of {spec.pages} pages were asked for again")

    with (
        postgres_server(fsync=False) as store,
        redis_cluster() as nodes,
        ServedSite(spec) as site,
        running_all(
            SeveralMasters(
                tmp_path,
                store=store.url(),
                CRAWLFLEET_FRONTIER=f"{nodes[0].url()}?partitions=6",
                CRAWLFLEET_LEDGER="off",
                CRAWLFLEET_OUTPUT_DIR=str(tmp_path / "output"),
                CRAWLFLEET_WORKER_ALLOW_PRIVATE="true",
                # Only those that are killed are to be missed.
                CRAWLFLEET_SESSION_TIMEOUT_S="20",
                CRAWLFLEET_SESSION_RECONNECT_S="6",
                TMPDIR=str(tmp_path),
            )
        ) as fleet,
    ):
        asyncio.run(scene(fleet, nodes, site))
