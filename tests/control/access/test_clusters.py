"""Settings of clusters: placement obeys them, nodes hear of them, and no time-out is cut short."""

import asyncio
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.core.nodes.cluster_health import Vitals, troubles_of, verdict_of
from crawlfleet.errors import Conflict, PreconditionFailed
from crawlfleet.model.admin_requests import (
    ClusterPatch,
    ClusterSettingsPatch,
    ProjectPatch,
    ProjectRequest,
)
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.project import DEFAULT_CLUSTER, ClusterStatus
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import Heartbeat, HeartbeatReply, ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage


async def configure(on: Stage, **settings: Any) -> None:
    patch = ClusterPatch(configuration=ClusterSettingsPatch(**settings))
    await on.control.clusters.change(DEFAULT_CLUSTER, patch, by="people")


async def beat(on: Stage, node: PlayedNode, **fields: Any) -> HeartbeatReply:
    heartbeat = Heartbeat(session_id=node.session_id, **fields)
    return await on.control.nodes.heartbeat(node.id, heartbeat)


def status(on: Stage, node: PlayedNode) -> NodeStatus:
    return on.control.nodes.get(node.id).status


def test_the_clusters_strategy_ranks_for_tasks_that_name_none() -> None:
    async def scene() -> None:
        async with stage() as on:
            first, second = await on.node("a"), await on.node("b")
            await configure(on, default_strategy="bin_pack")
            tasks = [await on.submit(), await on.submit()]
            await asyncio.sleep(1)
            homes = {(await on.task(task)).assigned_node for task in tasks}
            assert len(homes) == 1, "packed, where the fleet's default would spread"
            assert homes <= {first.id, second.id}
            causes = [event.cause for event in on.heard.events if event.kind == "task.assigned"]
            assert causes == ["placed by bin_pack"] * 2

    run_simulated(scene())


def test_a_limit_of_slots_holds_for_the_next_placement_and_what_runs_stays() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=2)
            tasks = [await on.submit() for _ in range(3)]
            running = (await node.lease()).assignments
            assert len(running) == 2
            await configure(on, max_slots=1)
            await node.report(running[0], ReportKind.SUCCEEDED)
            await asyncio.sleep(1)
            assert (await on.task(tasks[2])).status is TaskStatus.PENDING
            await node.report(running[1], ReportKind.SUCCEEDED)
            await asyncio.sleep(1)
            assert (await on.task(tasks[2])).status is TaskStatus.ASSIGNED
            await configure(on, max_slots=0)
            waiting = await on.submit()
            await asyncio.sleep(1)
            assert (await on.task(waiting)).status is TaskStatus.PENDING
            await configure(on, max_slots=None)
            await asyncio.sleep(1)
            assert (await on.task(waiting)).status is TaskStatus.ASSIGNED

    run_simulated(scene())


def test_a_shorter_timeout_holds_only_when_the_node_works_by_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await beat(on, node, number=1, configuration_version=0, session_timeout_s=12.0)
            await configure(on, session_timeout_s=4.0, heartbeat_interval_s=1.0)
            reply = await beat(on, node, number=2, configuration_version=0, session_timeout_s=12.0)
            assert reply.terms is not None
            assert (reply.terms.version, reply.terms.session_timeout_s) == (1, 4.0)
            await asyncio.sleep(11)  # the reply was lost: the node believes in 12 s
            assert status(on, node) is NodeStatus.ONLINE
            reply = await beat(on, node, number=3, configuration_version=1, session_timeout_s=4.0)
            assert reply.terms is None
            late = await beat(on, node, number=2, configuration_version=0, session_timeout_s=12.0)
            assert not late.session_lost, "a late copy does no harm"
            await asyncio.sleep(3.7)
            assert status(on, node) is NodeStatus.ONLINE
            await asyncio.sleep(0.5)
            assert status(on, node) is NodeStatus.UNRESPONSIVE, "and renews nothing"

    run_simulated(scene())


def test_a_longer_timeout_holds_from_the_reply_that_tells_it() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node()
            await configure(on, session_timeout_s=60.0)
            await beat(on, node, number=1, configuration_version=0, session_timeout_s=12.0)
            await asyncio.sleep(59)
            assert status(on, node) is NodeStatus.ONLINE
        async with stage(store) as on:  # a new master waits as long
            await asyncio.sleep(59)
            assert status(on, node) is NodeStatus.ONLINE
            await asyncio.sleep(2)
            assert status(on, node) is NodeStatus.UNRESPONSIVE

    run_simulated(scene())


def test_a_node_that_does_not_speak_of_settings_keeps_what_it_was_told_at_first() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await configure(on, session_timeout_s=4.0, heartbeat_interval_s=1.0)
            for _ in range(3):
                await node.beat()
                await asyncio.sleep(11)
                assert status(on, node) is NodeStatus.ONLINE

    run_simulated(scene())


def test_settings_and_status_survive_a_restart_of_the_master() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            await configure(on, max_slots=1)
            await on.control.clusters.move(DEFAULT_CLUSTER, ClusterStatus.MAINTENANCE, by="me")
            await on.control.projects.create(ProjectRequest(id="shop"), by="me")
        async with stage(store) as on:
            cluster = on.control.clusters.get(DEFAULT_CLUSTER)
            assert cluster.configuration.max_slots == 1
            assert cluster.status is ClusterStatus.MAINTENANCE
            assert on.control.projects.get("shop").name == "shop"
            await on.node()
            task = await on.submit(project_id="shop")
            await asyncio.sleep(1)
            assert (await on.task(task)).status is TaskStatus.PENDING

    run_simulated(scene())


def test_of_changes_at_once_one_is_made_and_the_others_change_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.control.projects.create(ProjectRequest(id="shop"), by="me")
            changes = [
                on.control.projects.change(
                    "shop", ProjectPatch(name=f"n{n}", description=f"n{n}"), by="me", if_version=1
                )
                for n in range(5)
            ]
            outcomes = await asyncio.gather(*changes, return_exceptions=True)
            made = [each for each in outcomes if not isinstance(each, BaseException)]
            assert len(made) == 1
            others = [each for each in outcomes if isinstance(each, BaseException)]
            assert all(isinstance(each, Conflict | PreconditionFailed) for each in others)
            assert on.control.projects.get("shop") == made[0]
            assert on.control.projects.get("shop").version == 2

    run_simulated(scene())


def vitals(**fields: Any) -> Vitals:
    usual: dict[str, Any] = {
        "cluster_id": "c",
        "status": ClusterStatus.ACTIVE,
        "nodes": {NodeStatus.ONLINE: 2},
        "health": {},
        "free": Resources(slots=1),
        "ready": 0,
        "oldest_ready_s": None,
        "outdated_nodes": 0,
    }
    return Vitals(**(usual | fields))


@pytest.mark.parametrize(
    ("fields", "verdict", "first"),
    [
        ({}, "healthy", None),
        ({"ready": 5, "oldest_ready_s": 3.0}, "healthy", None),
        ({"nodes": {}}, "degraded", "it has no node"),
        ({"nodes": {}, "ready": 2, "oldest_ready_s": 1.0}, "unhealthy", "2 tasks wait, and no"),
        (
            {
                "nodes": {NodeStatus.UNRESPONSIVE: 1},
                "ready": 1,
                "oldest_ready_s": 1.0,
                "outdated_nodes": 1,
            },
            "unhealthy",
            "1 task waits, and no node is online",
        ),
        ({"ready": 1, "oldest_ready_s": 61.0}, "degraded", "1 task waits though slots are free"),
        ({"ready": 1, "oldest_ready_s": 61.0, "free": Resources()}, "degraded", "1 task waits for"),
        ({"health": {Health.UNHEALTHY: 1, Health.HEALTHY: 3}}, "degraded", "1 node not healthy"),
        ({"outdated_nodes": 2}, "healthy", "2 nodes not yet on the newest configuration"),
        ({"status": ClusterStatus.MAINTENANCE, "ready": 9}, "healthy", "it is maintenance"),
    ],
)
def test_the_worst_is_told_first(fields: dict[str, Any], verdict: str, first: str | None) -> None:
    troubles = troubles_of(vitals(**fields))
    assert verdict_of(troubles) == verdict
    if first is None:
        assert troubles == ()
    else:
        assert troubles[0].message.startswith(first)
        assert all(trouble.remedy for trouble in troubles)
