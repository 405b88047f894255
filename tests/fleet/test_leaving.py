"""Workers that freeze, are told to go, or cannot be reached, as real processes."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlfleet.client import Client
from tests.support.several_masters import SeveralMasters, running_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def fleet_of(folder: Path, *, workers: int, **settings: str) -> SeveralMasters:
    # Long enough for a busy machine: here nobody but who is meant falls silent.
    settings = {"session_timeout_s": "8", **settings}
    named = {f"CRAWLFLEET_{name.upper()}": value for name, value in settings.items()}
    store = f"sqlite:///{folder / 'fleet.db'}"
    return SeveralMasters(folder, store=store, masters=1, workers=workers, **named)


async def until(ask: Callable[[], Any], within_s: float = 60.0) -> Any:
    """Wait until the answer is true; the answer."""
    async with asyncio.timeout(within_s):
        while not (found := await ask()):
            await asyncio.sleep(0.05)
        return found


async def status_of(client: Client, name: str) -> str:
    return next((node.status for node in await client.nodes() if node.name == name), "none")


async def node_of(client: Client, name: str) -> Any:
    return next(node for node in await client.nodes() if node.name == name)


def test_a_worker_that_wakes_up_after_its_session_is_refused_and_stops_what_it_did(
    tmp_path: Path,
) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            quick = await client.submit("sleep", {"seconds": 3})
            # Nothing but force ends this one.
            long = await client.submit("python", {"function": "time:sleep", "args": [120]})

            async def both_run() -> bool:
                tasks = [await client.task(each.id) for each in (quick, long)]
                return all(task.status == "processing" for task in tasks)

            await until(both_run)
            zombie = await node_of(client, "worker-1")
            worker = fleet.process("worker-1")
            executors = worker.children(recursive=True)
            worker.suspend()
            # Its executors go on: one of them finishes what nobody will count.
            await until(lambda: is_(client, "worker-1", "unresponsive"))
            fleet.start("worker-2")

            async def elsewhere() -> bool:
                task = await client.task(long.id)
                return task.status == "processing" and task.assigned_node != zombie.id

            await until(elsewhere)
            worker.resume()

            await until(lambda: is_(client, "worker-1", "online"))
            await asyncio.to_thread(psutil.wait_procs, executors, 20)
            running = [each for each in executors if each.is_running()]
            assert len(running) < len(executors), "the old executor was not stopped"
            done = await client.wait(quick.id)
            assert done.status == "completed"
            attempts = await client.executions(quick.id)
            assert (attempts[0].node_id, attempts[0].status) == (zombie.id, "lost")
            assert [each.status for each in attempts].count("completed") == 1
            assert (await node_of(client, "worker-1")).id == zombie.id
            await client.act(long.id, "cancel")
            attempts = await client.executions(long.id)
            assert attempts[0].status == "lost"
            events = await client.events(quick.id)
            assert [each.kind for each in events].count("task.completed") == 1

    fleet = fleet_of(
        tmp_path,
        workers=2,
        worker_slots="2",
        worker_python_allow='["time:sleep"]',
    )
    with running_all(fleet, but="worker-2"):
        asyncio.run(scene(fleet))


async def is_(client: Client, name: str, status: str) -> bool:
    return await status_of(client, name) == status


@pytest.mark.parametrize(("grace_s", "finishes"), [(60, True), (1, False)])
def test_a_worker_that_is_told_to_stop_lets_its_work_finish_within_the_grace(
    tmp_path: Path, grace_s: int, finishes: bool
) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            receipt = await client.submit("sleep", {"seconds": 3 if finishes else 120})
            await until(lambda: is_task(client, receipt.id, "processing"))
            process = fleet.process("worker-1")
            process.send_signal(signal.SIGTERM)
            await until(lambda: is_(client, "worker-1", "draining"))
            waiting = await client.submit("sleep", {"seconds": 0})
            await until(lambda: is_(client, "worker-1", "offline"))
            await asyncio.to_thread(process.wait, 20)

            task = await client.task(receipt.id)
            assert task.status == ("completed" if finishes else "pending")
            assert task.retry_count == 0
            assert (await client.task(waiting.id)).status == "pending"
            if finishes:
                assert len(await client.executions(receipt.id)) == 1

    fleet = fleet_of(tmp_path, workers=1, worker_leave_grace_s=str(grace_s), session_timeout_s="30")
    with running_all(fleet):
        asyncio.run(scene(fleet))


async def is_task(client: Client, id: str, status: str) -> bool:
    return (await client.task(id)).status == status


def test_a_worker_that_does_not_answer_is_unreachable_until_it_does(tmp_path: Path) -> None:
    async def scene(fleet: SeveralMasters) -> None:
        await fleet.until_ready("master-1", nodes=1)
        async with fleet.client() as client:
            node = await until(lambda: with_health(client, "healthy"))
            assert node.probe
            assert node.port > 0
            assert node.usage["disk_free_mb"] > 0
            worker = fleet.process("worker-1")
            worker.suspend()
            node = await until(lambda: with_health(client, "unreachable"))
            assert node.status == "online"
            assert "no answer within" in node.health_reason
            task = await client.submit("sleep", {"seconds": 0})
            explained = await client.explain(task.id)
            assert explained.placement.rejected == {"health": 1}
            worker.resume()
            await until(lambda: with_health(client, "healthy"))
            assert (await client.wait(task.id)).status == "completed"

    async def with_health(client: Client, health: str) -> Any:
        node = await node_of(client, "worker-1")
        return node if node.health == health else None

    fleet = fleet_of(
        tmp_path,
        workers=1,
        worker_advertise="127.0.0.1:0",
        health_probe_interval_s="0.3",
        health_probe_timeout_s="0.5",
        health_probe_failures="2",
        session_timeout_s="30",
    )
    with running_all(fleet):
        asyncio.run(scene(fleet))
