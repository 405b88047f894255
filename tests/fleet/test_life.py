"""A fleet on one machine as its user meets it: start, work, cancel, drain, stop."""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

together = pytest.mark.xdist_group("life")
"""Of tests that share a fleet, which else each process of pytest would start for itself."""
HOLDS_THE_GIL = {"function": "re:match", "args": ["(a+)+$", "a" * 60 + "b"]}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(
        tmp_path_factory.mktemp("fleet"),
        CRAWLFLEET_WORKER_PYTHON_ALLOW=json.dumps(["re:match", "math:factorial"]),
    )
    with running(fleet):
        asyncio.run(fleet.until_ready(nodes=2))
        yield fleet


@together
def test_a_function_runs_and_its_value_is_the_result(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit("python", {"function": "math:factorial", "args": [5]})
            task = await client.wait(receipt.id)
            assert task.status == "completed"
            assert task.result["success"] is True
            assert task.result["data"] == 120
            assert task.result["metrics"]["processing_time"] >= 0

    asyncio.run(scene())


@together
def test_a_function_that_is_not_allowed_is_refused_for_good(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit(
                "python", {"function": "os:system", "args": ["true"]}, max_retries=5
            )
            task = await client.wait(receipt.id)
            assert task.status == "failed"
            assert task.retry_count == 0
            assert "python_allow" in task.error.message

    asyncio.run(scene())


@together
def test_cancelling_stops_an_executor_that_spins_in_c_code(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit("python", HOLDS_THE_GIL)
            while (await client.task(receipt.id)).status != "processing":
                await asyncio.sleep(0.05)
            spinning = await the_busy_cell(fleet)
            begun = time.monotonic()
            await client.act(receipt.id, "cancel")
            await asyncio.to_thread(spinning.wait, 20)
            # The promise is 2 s; a busy test machine gets more.
            assert time.monotonic() - begun < 15
            assert (await client.task(receipt.id)).status == "cancelled"
            async with asyncio.timeout(10):
                while (await client.executions(receipt.id))[0].status != "cancelled":
                    await asyncio.sleep(0.05)

    asyncio.run(scene())


async def the_busy_cell(fleet: LocalFleet) -> psutil.Process:
    """The one that computes: others are made ahead, and wait."""
    async with asyncio.timeout(60):
        while True:
            for each in fleet.processes("executor"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if each.name() == "cell" and each.cpu_times().user > 1.0:
                        return each
            await asyncio.sleep(0.1)


@together
def test_a_time_limit_ends_an_executor_that_spins(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            receipt = await client.submit("python", HOLDS_THE_GIL, timeout=0.5, max_retries=0)
            task = await client.wait(receipt.id)
            assert task.status == "timeout"
            assert task.dead_reason is not None

    asyncio.run(scene())


@together
def test_nodes_report_real_figures(fleet: LocalFleet) -> None:
    async def scene() -> None:
        async with fleet.client() as client:
            await asyncio.sleep(1.2)
            for node in await client.nodes():
                assert node.resources.memory_mb > 100
                assert node.resources.cpu_cores >= 1
                assert 0 < node.usage["memory_usage"] <= 1
                assert "sleep" in node.task_types

    asyncio.run(scene())


def test_a_drained_worker_ends_and_is_not_started_again(tmp_path: Path) -> None:
    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            receipt = await client.submit("sleep", {"seconds": 1})
            while (task := await client.task(receipt.id)).assigned_node is None:
                await asyncio.sleep(0.05)
            await client.order(task.assigned_node, "drain")
            assert (await client.wait(receipt.id)).status == "completed"
            async with asyncio.timeout(15):
                while (await client.node(task.assigned_node)).status != "offline":
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(15):
                while len(fleet.processes("worker")) != 1:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            assert len(fleet.processes("worker")) == 1

    fleet = LocalFleet(tmp_path / "fleet")
    with running(fleet):
        asyncio.run(scene(fleet))
        assert fleet.stop() == 0


def test_a_restarted_fleet_has_the_same_nodes(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path / "fleet")
    for _ in range(2):
        with running(fleet):
            asyncio.run(fleet.until_ready(nodes=2))
            assert fleet.stop() == 0
    assert fleet.query("select count(*) from crawler_nodes") == [(2,)]


def test_killing_the_launcher_leaves_no_process_behind(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path / "fleet")
    with running(fleet):
        asyncio.run(fleet.until_ready(nodes=2))
        family = fleet.processes("all")
        assert len(family) >= 4
        fleet.kill("up")
        _, alive = psutil.wait_procs(family[1:], timeout=10)
        assert alive == []


def test_a_killed_worker_is_missed_long_before_its_session_times_out(tmp_path: Path) -> None:
    session_s = 120.0

    async def scene(fleet: LocalFleet) -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client, asyncio.timeout(session_s / 2):
            work = [{"task_type": "sleep", "parameters": {"seconds": 1}} for _ in range(8)]
            await client.submit_batch(work)
            while not any(node.active_tasks for node in await client.nodes()):
                await asyncio.sleep(0.05)
            fleet.processes("worker")[0].kill()
            await fleet.until_done(8, within_s=session_s / 2)

    slow_clock = {
        "CRAWLFLEET_SESSION_TIMEOUT_S": str(session_s),
        "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "30",
    }
    with running(LocalFleet(tmp_path / "fleet", **slow_clock)) as fleet:
        asyncio.run(scene(fleet))
        assert fleet.query("SELECT count(*) FROM crawler_tasks WHERE status = 'completed'") == [
            (8,)
        ]
