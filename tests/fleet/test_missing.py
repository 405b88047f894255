"""Nodes that die are missed at once, in whatever moment; those that live are not."""

import asyncio
import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_fleet import STOCK_SESSION
from tests.support.promises import check_completed_once, submit_sleeps, until_completed
from tests.support.several_masters import SeveralMasters

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
KILLS = 40 if SOAK else 6
TASKS = 200
SECONDS = 0.05
SOON_S = 8.0
"""Well before the 12 s of silence after which a node is missed in any case."""
IDLE_S = 60.0 if SOAK else 16.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _one_master(folder: Path, **settings: str) -> SeveralMasters:
    return SeveralMasters(folder, store=f"sqlite:///{folder}/fleet.db", masters=1, **settings)


def _ask(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{folder / 'fleet.db'}?mode=ro", uri=True)) as file:
        return file.execute(sql).fetchall()


def _causes(folder: Path) -> list[str]:
    """Why sessions have ended."""
    found = _ask(folder, "select end_cause from crawler_node_sessions where ended_at is not null")
    return [str(cause) for (cause,) in found]


def test_a_busy_node_that_is_killed_is_missed_for_its_broken_connections(tmp_path: Path) -> None:
    chance = random.Random(12)

    async def scene(fleet: SeveralMasters) -> tuple[list[float], list[str]]:
        took = []
        fleet.start("master-1")
        fleet.start("worker-2")
        async with fleet.client() as client:
            for number in range(KILLS):
                fleet.start("worker-1")
                await fleet.until_ready("master-1", nodes=2)
                done = TASKS * number
                await submit_sleeps(client, range(done, done + TASKS), seconds=SECONDS)
                await until_completed(client, done + TASKS // 10, within_s=60)
                await asyncio.sleep(chance.uniform(0.0, 0.3))
                fleet.kill("worker-1")
                killed_at = time.monotonic()
                await until_completed(client, done + TASKS, within_s=60)
                took.append(time.monotonic() - killed_at)
                async with asyncio.timeout(60):
                    while len(_causes(tmp_path)) <= number:
                        await asyncio.sleep(0.05)
        # A fleet that ends breaks connections, too.
        return took, _causes(tmp_path)

    fleet = _one_master(tmp_path, CRAWLFLEET_WORKER_SLOTS="4", **STOCK_SESSION)
    try:
        took, causes = asyncio.run(scene(fleet))
    finally:
        fleet.end()
    assert len(causes) == KILLS
    assert [cause for cause in causes if "its connection broke" not in cause] == []
    assert max(took) < SOON_S, took
    check_completed_once(lambda sql: _ask(tmp_path, sql), TASKS * KILLS)


def test_nodes_whose_idle_connections_are_closed_keep_their_sessions(tmp_path: Path) -> None:
    """They beat less often than the master keeps a connection open that is idle (5 s)."""

    async def scene(fleet: SeveralMasters) -> None:
        for name in ("master-1", *fleet.workers):
            fleet.start(name)
        await fleet.until_ready("master-1", nodes=2)
        ends = time.monotonic() + IDLE_S
        tasks = 0
        async with fleet.client() as client:
            while time.monotonic() < ends:
                await submit_sleeps(client, range(tasks, tasks + 10), seconds=SECONDS)
                tasks += 10
                await until_completed(client, tasks, within_s=60)
                await asyncio.sleep(1.0)

    fleet = _one_master(
        tmp_path,
        CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S="7",
        CRAWLFLEET_SESSION_TIMEOUT_S="60",
        CRAWLFLEET_SESSION_LONG_POLL_S="0.3",
    )
    try:
        asyncio.run(scene(fleet))
        assert _causes(tmp_path) == []
        ((sessions,),) = _ask(tmp_path, "select count(*) from crawler_node_sessions")
    finally:
        fleet.end()
    assert sessions == 2
