"""Settings of a cluster reach real workers, which apply them, say so, and lose no work by it."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.client import Client
from crawlfleet.views.projects import ClusterView
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def until_all_run(client: Client, cluster: ClusterView) -> None:
    async with asyncio.timeout(60):
        while True:
            versions = {node.configuration_version for node in await client.nodes()}
            if versions == {cluster.configuration_version}:
                return
            await asyncio.sleep(0.1)


def written(fleet: LocalFleet) -> str:
    logs = (fleet.folder / "logs").glob("*.log")
    return "".join(path.read_text() for path in logs if path.name != "master.log")


def test_settings_reach_the_workers_and_are_applied(tmp_path: Path) -> None:
    fleet = LocalFleet(
        tmp_path / "fleet", CRAWLFLEET_LOG_LEVEL="error", CRAWLFLEET_SESSION_TIMEOUT_S="12"
    )

    async def scenario() -> None:
        await fleet.until_ready(nodes=2)
        async with fleet.client() as client:
            assert "settings of the cluster" not in written(fleet)
            tasks = await client.submit_batch(
                {"task_type": "sleep", "parameters": {"seconds": 0.2}} for _ in range(60)
            )
            changed = await client.change_cluster(
                "default",
                configuration={"max_slots": 1, "log_level": "info", "session_timeout_s": 10},
            )
            await until_all_run(client, changed)
            shorter = await client.change_cluster(
                "default",
                configuration={
                    "session_timeout_s": 8,
                    "heartbeat_interval_s": 0.3,
                    "log_level": "info",
                },
            )
            await until_all_run(client, shorter)
            assert "settings of the cluster" in written(fleet), "the level holds"
            for _ in range(5):
                nodes = await client.nodes()
                assert all(len(node.active_tasks) <= 1 + 4 for node in nodes)
                await asyncio.sleep(0.1)
            health = await client.cluster_health("default")
            assert (health.outdated_nodes, health.nodes) == (0, {"online": 2})
            assert health.capacity.slots == 2, "one on each, whatever they offer"
            back = await client.roll_back_cluster("default", 0)
            assert back.configuration_version == 3
            ended = await client.wait_for_all([item.id or "" for item in tasks.items])
            assert {task.status for task in ended} == {"completed"}
            assert {task.loss_count for task in ended} == {0}, "no session was lost"
            await until_all_run(client, back)

    with running(fleet):
        asyncio.run(scenario())
        assert fleet.stop() == 0


def test_workers_join_the_cluster_that_their_settings_name(tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path / "fleet", workers=1, CRAWLFLEET_WORKER_CLUSTER="berlin")

    async def scenario() -> None:
        await fleet.until_ready()
        async with fleet.client() as client, asyncio.timeout(90):
            await client.create_cluster("berlin")
            while not await client.nodes():
                await asyncio.sleep(0.1)
            (node,) = await client.nodes()
            assert node.cluster_id == "berlin"
            elsewhere = await client.submit("sleep", {"seconds": 0})
            here = await client.submit("sleep", {"seconds": 0}, cluster_id="berlin")
            assert (await client.wait(here.id)).assigned_node == node.id
            assert (await client.task(elsewhere.id)).status == "pending"

    with running(fleet):
        asyncio.run(scenario())
