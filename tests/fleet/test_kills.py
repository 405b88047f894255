"""Whatever is killed, at whatever moment: every task completes once, and none is lost."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from tests.support.local_fleet import LocalFleet, running
from tests.support.promises import check_completed_once, submit_sleeps

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
TASKS = 5_000 if SOAK else 1_000
KILLS = 20 if SOAK else 3
SECONDS = 0.004

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def _submit(fleet: LocalFleet, tasks: int) -> None:
    await fleet.until_ready()
    async with fleet.client() as client:
        await submit_sleeps(client, range(tasks), seconds=SECONDS)


def test_killing_the_whole_fleet_again_and_again_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    chance = random.Random(20)
    fleet = LocalFleet(tmp_path / "fleet")
    with running(fleet):
        asyncio.run(_submit(fleet, TASKS))
    unfinished = 0
    for _ in range(KILLS):
        with running(fleet):
            asyncio.run(fleet.until_ready(nodes=chance.choice((0, 1, 2))))
            time.sleep(chance.uniform(0.0, 0.5))
            fleet.kill("all")
        left = fleet.query("select count(*) from crawler_tasks where status <> 'completed'")
        unfinished += left[0][0] > 0
    assert unfinished >= KILLS // 2, "the kills must come while there is work"
    with running(fleet):
        asyncio.run(fleet.until_done(TASKS, within_s=300))
        assert fleet.stop() == 0
    check_completed_once(fleet.query, TASKS)


@pytest.mark.parametrize("victim", ["master", "worker", "executor"] if SOAK else ["executor"])
def test_killing_one_kind_of_process_loses_and_repeats_nothing(victim: str, tmp_path: Path) -> None:
    chance = random.Random(victim)
    fleet = LocalFleet(tmp_path / "fleet")
    with running(fleet):
        asyncio.run(_submit(fleet, TASKS))
        killed = 0
        for _ in range(KILLS):
            asyncio.run(fleet.until_ready(nodes=1))
            while not fleet.processes(victim):
                time.sleep(0.05)
            time.sleep(chance.uniform(0.1, 0.5))
            killed += fleet.kill(victim)
        assert killed >= KILLS
        asyncio.run(fleet.until_done(TASKS, within_s=300))
        assert fleet.stop() == 0
    check_completed_once(fleet.query, TASKS)
