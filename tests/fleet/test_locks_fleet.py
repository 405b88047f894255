"""Locks that executions hold by way of their nodes, on a real fleet that is killed and stopped."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from crawlfleet.client import Client
from crawlfleet.testing.lock_suite import Guard
from tests.support.local_fleet import LocalFleet, running

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "executors" / "locked" / "counting.py"
USER_CODE = """
import asyncio, os
from pathlib import Path
from crawlfleet.executors.python import lock
from crawlfleet.testing.lock_suite import Guard

async def hold(guarded, lease_s=2):
    async with lock("door", lease_s=lease_s, wait_s=60) as held:
        Guard(Path(guarded)).write(held.token, f"pid{os.getpid()}")
        await asyncio.sleep(60)

async def enter(guarded):
    async with lock("door", lease_s=2, wait_s=60) as held:
        assert Guard(Path(guarded)).write(held.token, "entered")
        return held.token

async def impatient():
    async with lock("door", lease_s=2, wait_s=0.2):
        return "in"
"""


@contextlib.asynccontextmanager
async def fleet_of(folder: Path, **settings: str) -> AsyncIterator[tuple[LocalFleet, Client]]:
    (folder / "code").mkdir()
    (folder / "code" / "locked.py").write_text(USER_CODE)
    shutil.copy(EXAMPLE, folder / "code")
    fleet = LocalFleet(
        folder / "fleet",
        CRAWLFLEET_WORKER_PYTHON_ALLOW=json.dumps(["locked:*"]),
        CRAWLFLEET_WORKER_PYTHON_MODULES=json.dumps(["counting"]),
        # They write to a folder that all share; a cell could not.
        CRAWLFLEET_WORKER_SANDBOX_TASK_TYPES="[]",
        PYTHONPATH=str(folder / "code"),
        **settings,
    )
    with running(fleet):
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client, asyncio.timeout(100):
            yield fleet, client


def call(function: str, *args: object) -> dict[str, object]:
    return {"function": f"locked:{function}", "args": list(args)}


async def until_held(guard: Guard) -> int:
    while not guard.words():
        await asyncio.sleep(0.05)
    return int(guard.words()[-1][1].removeprefix("pid"))


def test_executions_on_several_nodes_enter_one_at_a_time(tmp_path: Path) -> None:
    async def scene() -> None:
        add = {"function": "counting.add", "args": [str(tmp_path)]}
        async with fleet_of(tmp_path) as (_, client):
            receipts = [await client.submit("python", add) for _ in range(24)]
            tasks = await client.wait_for_all([receipt.id for receipt in receipts])
            assert {task.status for task in tasks} == {"completed"}
            assert (tmp_path / "count").read_text() == "24"
            told = [task.result["data"] for task in tasks if task.result]
            told.sort(key=lambda each: each["token"])
            assert [each["number"] for each in told] == [*range(1, 25)]

    asyncio.run(scene())


def test_lock_of_a_killed_executor_is_free_after_its_lease(tmp_path: Path) -> None:
    async def scene() -> None:
        guard = Guard(tmp_path / "guarded")
        async with fleet_of(tmp_path) as (_, client):
            holder = await client.submit(
                "python", call("hold", str(tmp_path / "guarded")), max_retries=0
            )
            pid = await until_held(guard)
            impatient = await client.submit("python", call("impatient"), max_retries=0)
            refused = await client.wait(impatient.id)
            assert refused.status == "failed"
            assert refused.error
            assert "is not free" in refused.error.message
            psutil.Process(pid).kill()
            entered = await client.submit("python", call("enter", str(tmp_path / "guarded")))
            task = await client.wait(entered.id)
            assert task.status == "completed"
            assert (await client.wait(holder.id)).status == "failed"
            tokens = [token for token, _ in guard.words()]
            assert tokens == sorted(set(tokens))

    asyncio.run(scene())


def test_executor_stopped_beyond_its_lease_hears_that_it_lost_the_lock(tmp_path: Path) -> None:
    async def scene() -> None:
        guard = Guard(tmp_path / "guarded")
        async with fleet_of(tmp_path) as (_, client):
            holder = await client.submit(
                "python", call("hold", str(tmp_path / "guarded")), max_retries=0
            )
            stopped = psutil.Process(await until_held(guard))
            stopped.suspend()
            entered = await client.submit("python", call("enter", str(tmp_path / "guarded")))
            assert (await client.wait(entered.id)).status == "completed"
            stopped.resume()
            task = await client.wait(holder.id)
            assert task.status == "failed"
            assert task.error
            assert "not held any more" in task.error.message

    asyncio.run(scene())


def test_lock_is_still_held_after_the_master_was_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        guard = Guard(tmp_path / "guarded")
        # Long enough for a master, and for nodes, that are slow to come back.
        patient = {"CRAWLFLEET_SESSION_TIMEOUT_S": "40", "CRAWLFLEET_SESSION_RECONNECT_S": "30"}
        async with fleet_of(tmp_path, **patient) as (fleet, client):
            held = call("hold", str(tmp_path / "guarded"), 60)
            await client.submit("python", held, max_retries=0)
            await until_held(guard)
            fleet.kill("master")
            await fleet.until_ready(nodes=2)
            impatient = await client.submit("python", call("impatient"), max_retries=0)
            task = await client.wait(impatient.id)
            assert task.status == "failed"

    asyncio.run(scene())
