"""A fleet on PostgreSQL: masters and the server itself die, and every task completes once."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from tests.support.local_fleet import LocalFleet, running
from tests.support.promises import check_completed_once, submit_sleeps
from tests.support.servers import PostgresServer, postgres_server

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
TASKS = 5_000 if SOAK else 600
MASTER_KILLS = 30 if SOAK else 4
RESTARTS = 5 if SOAK else 2
SECONDS = 0.02

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def _submit(fleet: LocalFleet) -> None:
    async with fleet.client() as client:
        await submit_sleeps(client, range(TASKS), seconds=SECONDS)


def _unfinished(server: PostgresServer) -> int:
    ((count,),) = server.execute("select count(*) from crawler_tasks where status <> 'completed'")
    return int(count)


def test_killing_masters_and_the_server_loses_and_repeats_nothing(tmp_path: Path) -> None:
    chance = random.Random(15)
    blows = ["master"] * MASTER_KILLS + ["server"] * RESTARTS
    chance.shuffle(blows)
    with postgres_server() as server:
        fleet = LocalFleet(tmp_path / "fleet", CRAWLFLEET_STORE=server.url())
        with running(fleet):
            asyncio.run(fleet.until_ready())
            asyncio.run(_submit(fleet))
            struck = 0
            for blow in blows:
                asyncio.run(fleet.until_ready(nodes=1))
                time.sleep(chance.uniform(0.05, 0.4))
                struck += _unfinished(server) > 0
                if blow == "master":
                    assert fleet.kill("master") == 1
                else:
                    server.restart("immediate")
            asyncio.run(fleet.until_done(TASKS, within_s=300))
            assert fleet.stop() == 0
        assert struck >= len(blows) // 2, "the blows must come while there is work"
        check_completed_once(server.execute, TASKS)
        assert not (tmp_path / "fleet" / "crawlfleet.db").exists()
