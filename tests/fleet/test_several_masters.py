"""Two masters on one PostgreSQL: whichever is killed, every task completes once."""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.support.promises import check_completed_once, submit_sleeps, until_completed
from tests.support.servers import PostgresServer, postgres_server
from tests.support.several_masters import SeveralMasters, running_all

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
TASKS = 5_000 if SOAK else 800
BATCH = 20
KILLS = 20 if SOAK else 4
SECONDS = 0.02

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def _submit(fleet: SeveralMasters, first: int) -> None:
    """Submit a batch to any master; again until it was answered, which changes nothing."""
    names = [*fleet.urls]
    at = names[first // BATCH % len(names)]
    others = [name for name in names if name != at]
    async with fleet.client(at, *others) as client:
        await submit_sleeps(client, range(first, first + BATCH), seconds=SECONDS, tries=600)


async def _submit_all(fleet: SeveralMasters) -> None:
    for first in range(0, TASKS, BATCH):
        await _submit(fleet, first)
        await asyncio.sleep(0.05)


async def _kill_leaders(fleet: SeveralMasters, server: PostgresServer) -> list[float]:
    """Kill the leader again and again while there is work; how long each take-over took."""
    chance = random.Random(8)
    took: list[float] = []
    for _ in range(KILLS):
        leader = await fleet.leader()
        for name in fleet.urls:
            await fleet.until_ready(name, nodes=1)
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        fleet.kill(leader)
        begun = time.monotonic()
        await fleet.leader(other_than=leader)
        took.append(time.monotonic() - begun)
        fleet.start(leader)
    return took


def test_killing_the_leader_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters, server: PostgresServer) -> list[float]:
        for name in fleet.urls:
            await fleet.until_ready(name, nodes=len(fleet.workers))
        async with asyncio.TaskGroup() as group:
            group.create_task(_submit_all(fleet))
            took = await _kill_leaders(fleet, server)
        async with fleet.client() as client:
            await until_completed(client, TASKS, within_s=300)
        return took

    with postgres_server() as server:
        with running_all(SeveralMasters(tmp_path, store=server.url())) as fleet:
            took = asyncio.run(scene(fleet, server))
            for name in (*fleet.workers, *fleet.urls):
                fleet.kill(name, signal.SIGTERM)
        print("take-overs took", [round(each, 2) for each in took])
        assert max(took) < 60.0, took
        check_completed_once(server.execute, TASKS)


def test_a_leader_that_hangs_is_replaced_and_follows_when_it_wakes(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        leader = await fleet.leader()
        (other,) = [name for name in fleet.urls if name != leader]
        await fleet.until_ready(other)
        fleet.kill(leader, signal.SIGSTOP)
        assert await fleet.leader(other_than=leader) == other
        async with fleet.client(other) as client:
            receipt = await client.submit("sleep", {"seconds": 0})
            async with asyncio.timeout(180):
                assert (await client.wait(receipt.id)).status == "completed"
            fleet.kill(leader, signal.SIGCONT)
            await fleet.until_ready(leader)
            async with fleet.client(leader) as woken, asyncio.timeout(180):
                while (status := await woken.status()).leader:
                    await asyncio.sleep(0.05)
                assert status.led_by == fleet.urls[other]
                receipt = await woken.submit("sleep", {"seconds": 0})
                assert (await woken.wait(receipt.id)).status == "completed"

    with (
        postgres_server(fsync=False) as server,
        running_all(SeveralMasters(tmp_path, store=server.url(), workers=1)) as fleet,
    ):
        asyncio.run(scene(fleet))
