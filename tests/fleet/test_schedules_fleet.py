"""Two masters on one PostgreSQL, and a schedule: the leader is killed around each firing."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from crawlfleet.features.schedules.views import FiringView
from tests.support.servers import postgres_server
from tests.support.several_masters import SeveralMasters, running_all

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
KILLS = 30 if SOAK else 3
EVERY_S = 4.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


async def _patiently(fleet: SeveralMasters, ask: str, *args: object) -> object:
    """What any of the masters answers, once one does."""
    async with asyncio.timeout(120):
        while True:
            try:
                async with fleet.client() as client:
                    return await getattr(client, ask)(*args)
            except CrawlfleetError:
                await asyncio.sleep(0.1)


async def _kill_around_firings(fleet: SeveralMasters, first_due: float) -> None:
    """Kill the leader from half a second before to a quarter after a due instant."""
    chance = random.Random(11)
    for _ in range(KILLS):
        leader = await fleet.leader()
        for name in fleet.urls:
            await fleet.until_ready(name)
        passed = time.time() - first_due
        due = first_due + EVERY_S * (max(passed, 0.0) // EVERY_S + 1)
        at = due + chance.choice((-0.5, -0.02, 0.0, 0.005, 0.02, 0.25))
        await asyncio.sleep(max(at - time.time(), 0.0))
        fleet.kill(leader)
        await fleet.leader(other_than=leader)
        fleet.start(leader)


async def _history(client: Client, id: str) -> list[FiringView]:
    """Oldest first."""
    return [each async for each in client.schedule_history(id)][::-1]


async def _scene(fleet: SeveralMasters) -> tuple[list[FiringView], int]:
    for name in fleet.urls:
        await fleet.until_ready(name)
    async with fleet.client() as client:
        made = await client.create_schedule(
            "pulse",
            {"task_type": "nobodys"},
            every_s=EVERY_S,
            max_instances=1000,
            coalesce=False,
        )
    assert made.next_at is not None
    await _kill_around_firings(fleet, made.next_at.timestamp())
    await asyncio.sleep(EVERY_S)
    await fleet.leader()
    await _patiently(fleet, "pause_schedule", made.id)
    async with fleet.client() as client:
        fired = await _history(client, made.id)
        tasks = [task.id async for task in client.tasks()]
    assert {each.task_id for each in fired} == {*tasks}
    return fired, len(tasks)


def test_killing_the_leader_at_the_moment_of_firing_fires_once(tmp_path: Path) -> None:
    with postgres_server() as server:
        with running_all(SeveralMasters(tmp_path, store=server.url(), workers=0)) as fleet:
            fired, tasks = asyncio.run(_scene(fleet))
        dues = [each.due_at.timestamp() for each in fired]
        # Each due instant, none twice, none left out, however often the leader died.
        assert dues == [dues[0] + EVERY_S * n for n in range(len(dues))]
        assert {(each.outcome, each.count) for each in fired} == {("started", 1)}
        assert tasks == len(fired) > KILLS
        ((count,),) = server.execute("select count(*) from crawler_tasks")
        assert int(count) == tasks
