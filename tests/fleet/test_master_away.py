"""The master is away while work is finished, and whoever finished it is killed meanwhile."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.support.several_masters import SeveralMasters, running_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TASKS = 4


@pytest.mark.parametrize("worker_is_killed", [False, True], ids=["worker lives", "worker killed"])
def test_finished_work_counts_when_the_master_comes_back(
    tmp_path: Path, worker_is_killed: bool
) -> None:
    store = tmp_path / "fleet.db"
    fleet = SeveralMasters(
        tmp_path,
        store=f"sqlite:///{store}",
        masters=1,
        workers=1,
        # Long enough that what runs can end while the master is away, and that the worker can come
        # back after it, on a machine with other things to do.
        CRAWLFLEET_SESSION_TIMEOUT_S="90" if worker_is_killed else "30",
    )

    async def scene() -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            await client.submit_batch(
                {"task_type": "sleep", "parameters": {"seconds": 3.0}} for _ in range(TASKS)
            )
            async with asyncio.timeout(60):
                while (await client.status()).totals.tasks.get("processing", 0) < TASKS:
                    await asyncio.sleep(0.05)
        fleet.kill("master-1")
        journal = tmp_path / "worker-1" / "nodes" / "worker-1.reports"
        async with asyncio.timeout(60):
            while not journal.exists() or journal.read_bytes().count(b'"succeeded"') < TASKS:
                await asyncio.sleep(0.1)
        if worker_is_killed:
            fleet.kill("worker-1")
            fleet.start("worker-1")
        else:
            # Until the session is over for the worker, too.
            async with asyncio.timeout(60):
                while "cannot register yet" not in fleet.log("worker-1"):
                    await asyncio.sleep(0.1)
        fleet.start("master-1")
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client, asyncio.timeout(60):
            while (await client.status()).totals.tasks.get("completed", 0) < TASKS:
                await asyncio.sleep(0.1)
            (node,) = await client.nodes()
            assert node.status == "online"
        # They count for the master a moment before the node hears of it.
        async with asyncio.timeout(20):
            while journal.stat().st_size:
                await asyncio.sleep(0.1)

    with running_all(fleet):
        asyncio.run(scene())
    with sqlite3.connect(store) as rows:
        # Each was done once: nothing was finished in vain.
        assert rows.execute(
            "select status, count(*) from crawler_task_executions group by status"
        ).fetchall() == [("completed", TASKS)]
