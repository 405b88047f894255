"""Whatever is killed, at whatever moment: every task completes once, and none is lost."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from crawlfleet.testing.local_fleet import LocalFleet, running

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
TASKS = 5_000 if SOAK else 1_200
KILLS = 20 if SOAK else 4
SECONDS = 0.004

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def _submit(fleet: LocalFleet, tasks: int) -> None:
    await fleet.until_ready()
    async with fleet.client() as client:
        reply = await client.submit_batch(
            {
                "task_type": "sleep",
                "parameters": {"seconds": SECONDS},
                "max_retries": 50,
                "retry_policy": {"initial_delay_s": 0.01, "max_delay_s": 0.1},
                "idempotency_key": f"task {number}",
            }
            for number in range(tasks)
        )
    assert all(item.error is None for item in reply.items)


def _check(fleet: LocalFleet, tasks: int) -> None:
    assert fleet.query("select status, count(*) from crawler_tasks group by status") == [
        ("completed", tasks)
    ]
    completed_twice = fleet.query(
        "select task_id from crawler_task_executions where status = 'completed' "
        "group by task_id having count(*) <> 1"
    )
    assert completed_twice == []
    told_twice = fleet.query(
        "select subject from crawler_events where kind = 'task.completed' "
        "group by subject having count(*) <> 1"
    )
    assert told_twice == []
    assert fleet.query(
        "select count(*) from crawler_task_executions "
        "where status in ('assigned', 'running', 'stopping')"
    ) == [(0,)]


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
    _check(fleet, TASKS)


@pytest.mark.parametrize("victim", ["master", "worker", "executor"])
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
    _check(fleet, TASKS)
