"""Projects, settings of clusters, labels and logs with two masters: either may be asked."""

import asyncio
from typing import Any

import pytest

from crawlfleet.errors import Conflict, NotFound, PreconditionFailed
from crawlfleet.model.admin_requests import (
    ClusterPatch,
    ClusterRequest,
    ClusterSettingsPatch,
    ProjectPatch,
    ProjectRequest,
)
from crawlfleet.model.log import LogLine
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.node_sample import Resolution
from crawlfleet.model.project import DEFAULT_CLUSTER, ClusterStatus, ProjectStatus
from crawlfleet.model.requests import JoinTokenRequest, NodeChangeRequest
from crawlfleet.model.settings import SessionSettings, TaskSettings
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import Heartbeat, HeartbeatReply, Note, NoteBatch
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from tests.control.stage import PlayedNode, Stage
from tests.control.test_masters import agree, two


def unheard() -> float:
    """The news is on its way for longer than any of these scenes takes."""
    return 1000.0


async def configure(on: Stage, cluster_id: str = DEFAULT_CLUSTER, **settings: Any) -> None:
    patch = ClusterPatch(configuration=ClusterSettingsPatch(**settings))
    await on.control.clusters.change(cluster_id, patch, by="people")


async def beat(on: Stage, node: PlayedNode, **fields: Any) -> HeartbeatReply:
    heartbeat = Heartbeat(session_id=node.session_id, **fields)
    return await on.control.nodes.heartbeat(node.id, heartbeat)


def status(on: Stage, node: PlayedNode) -> NodeStatus:
    return on.control.nodes.get(node.id).status


def test_settings_changed_at_a_follower_hold_at_the_leader() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node(slots=2)
            await configure(on.other, max_slots=1, default_strategy="bin_pack")
            await asyncio.sleep(0.1)
            tasks = [await on.one.submit() for _ in range(2)]
            await asyncio.sleep(1)
            states = sorted([(await on.one.task(task)).status for task in tasks])
            assert states == [TaskStatus.ASSIGNED, TaskStatus.PENDING]
            causes = [e.cause for e in on.one.heard.events if e.kind == "task.assigned"]
            assert causes == ["placed by bin_pack"]
            reply = await beat(on.one, node, configuration_version=0, session_timeout_s=12.0)
            assert reply.terms is not None
            assert (reply.terms.version, reply.terms.max_slots) == (1, 1)
            await configure(on.one, max_slots=None)
            await agree(on)
            states = [(await on.one.task(task)).status for task in tasks]
            assert states == [TaskStatus.ASSIGNED] * 2

    run_simulated(scene())


def test_projects_made_closed_and_named_at_one_master_are_known_to_the_other() -> None:
    async def scene() -> None:
        async with two(tasks=TaskSettings(create_projects=True)) as on:
            await on.one.control.projects.create(ProjectRequest(id="shop"), by="me")
            await on.other.submit(project_id="named")
            await asyncio.sleep(0.1)
            await on.other.control.projects.move("shop", ProjectStatus.CLOSED, by="me")
            assert on.one.control.projects.get("named").name == "named"
            await asyncio.sleep(0.1)
            with pytest.raises(Conflict, match="closed"):
                await on.one.submit(project_id="shop")
            await agree(on)

    run_simulated(scene())


def test_what_another_master_has_just_made_is_found_before_the_news_comes() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard, tasks=TaskSettings(create_projects=False)) as on:
            await on.one.control.projects.create(ProjectRequest(id="shop"), by="me")
            await on.one.control.projects.create(ProjectRequest(id="more"), by="me")
            request = ClusterRequest(id="north", project_id="shop")
            made = await on.one.control.clusters.create(request, by="me")
            assert await on.other.control.clusters.find("north") == made[0]
            assert (await on.other.control.projects.find("shop")).name == "shop"
            with pytest.raises(NotFound):
                await on.other.control.clusters.find("south")

            await on.one.control.clusters.create(ClusterRequest(id="east"), by="me")
            await on.one.control.clusters.create(ClusterRequest(id="west"), by="me")
            await on.one.control.projects.create(ProjectRequest(id="last"), by="me")
            await on.other.node("n", cluster_id="east")
            await on.other.submit(cluster_id="west", project_id="last")
            await on.one.control.clusters.create(ClusterRequest(id="far"), by="me")
            token = JoinTokenRequest(cluster_id="far")
            made_token, _ = await on.other.control.keys.create_join_token(token, by="me")
            assert made_token.cluster_id == "far"
            south = ClusterRequest(id="south", project_id="more")
            assert (await on.other.control.clusters.create(south, by="me"))[1]

    run_simulated(scene())


def test_the_same_request_at_two_masters_makes_a_thing_once() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard) as on:
            project, cluster = ProjectRequest(id="shop"), ClusterRequest(id="north")
            for made, master in ((True, on.one), (False, on.other)):
                assert (await master.control.projects.create(project, by="me"))[1] is made
                assert (await master.control.clusters.create(cluster, by="me"))[1] is made
            with pytest.raises(Conflict, match="there is a cluster"):
                await on.one.control.clusters.create(
                    ClusterRequest(id="north", name="another"), by="me"
                )

    run_simulated(scene())


def test_a_change_goes_by_what_is_so_and_not_by_what_was_heard() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard) as on:
            one, other = on.one.control, on.other.control
            await one.projects.create(ProjectRequest(id="shop"), by="me")
            await other.projects.find("shop")
            await one.projects.move("shop", ProjectStatus.CLOSED, by="me")
            opened = await other.projects.move("shop", ProjectStatus.ACTIVE, by="me")
            assert (opened.status, opened.version) == (ProjectStatus.ACTIVE, 3)
            await one.clusters.move(DEFAULT_CLUSTER, ClusterStatus.INACTIVE, by="me")
            cluster = await other.clusters.move(DEFAULT_CLUSTER, ClusterStatus.ACTIVE, by="me")
            assert (cluster.status, cluster.version) == (ClusterStatus.ACTIVE, 3)

    run_simulated(scene())


def test_a_version_that_was_seen_at_one_master_holds_at_the_other() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard) as on:
            one, other = on.one.control, on.other.control
            node = await on.one.node()
            await other.nodes.find(node.id)
            labelled = await one.nodes.change(node.id, NodeChangeRequest(labels={"a": "1"}), by="")
            again = NodeChangeRequest(labels={"a": "2"})
            await other.nodes.change(node.id, again, by="me", version=labelled.version)
            await one.node_orders.maintain(node.id, by="me", if_version=labelled.version + 1)
            assert (await other.node_orders.resume(node.id, by="me")).status is NodeStatus.ONLINE
            more = NodeChangeRequest(labels={"a": "3"})
            with pytest.raises(PreconditionFailed):
                await one.nodes.change(node.id, more, by="me", version=labelled.version)

            project = (await one.projects.create(ProjectRequest(id="shop"), by="me"))[0]
            await other.projects.find("shop")
            project = await one.projects.change("shop", ProjectPatch(name="a"), by="me")
            patch = ProjectPatch(name="b")
            await other.projects.change("shop", patch, by="me", if_version=project.version)

    run_simulated(scene())


def test_a_node_is_never_told_older_settings_than_it_works_by() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard) as on:
            node = await on.one.node()
            await beat(on.other, node, number=1, configuration_version=0, session_timeout_s=12.0)
            await configure(on.one, session_timeout_s=60.0)
            said = {"configuration_version": 0, "session_timeout_s": 12.0}
            told = (await beat(on.one, node, number=2, **said)).terms
            assert told is not None
            said = {"configuration_version": told.version, "session_timeout_s": 60.0}
            assert (await beat(on.other, node, number=3, **said)).terms is None

    run_simulated(scene())


@pytest.mark.parametrize("skew_s", [-100.0, 0.0, 100.0])
def test_a_clusters_time_out_holds_for_nodes_of_a_follower(skew_s: float) -> None:
    async def scene() -> None:
        async with two(skew_s=skew_s) as on:
            await on.one.control.clusters.create(ClusterRequest(id="hasty"), by="me")
            await on.one.control.clusters.create(ClusterRequest(id="slow"), by="me")
            await configure(on.one, "hasty", session_timeout_s=3.0, heartbeat_interval_s=1.0)
            await configure(on.one, "slow", session_timeout_s=60.0, heartbeat_interval_s=20.0)
            hasty = await on.other.node("a", cluster_id="hasty")
            slow = await on.other.node("b", cluster_id="slow")
            for _ in range(40):
                await asyncio.sleep(1)
                assert not (await hasty.beat()).session_lost
            assert status(on.one, slow) is NodeStatus.ONLINE, "not silent for too long yet"
            assert on.one.control.state.sessions[hasty.session_id].last_heartbeat > 0
            await slow.beat()
            await asyncio.sleep(7)
            assert status(on.one, hasty) is NodeStatus.UNRESPONSIVE
            await asyncio.sleep(52)
            assert status(on.one, slow) is NodeStatus.ONLINE
            await asyncio.sleep(60)
            assert status(on.one, slow) is NodeStatus.UNRESPONSIVE

    run_simulated(scene())


def test_a_clusters_time_out_holds_after_a_take_over() -> None:
    async def scene() -> None:
        async with two() as on:
            await configure(on.one, session_timeout_s=60.0, heartbeat_interval_s=20.0)
            node = await on.one.node()
            task = await on.one.submit()
            await node.take()
            await asyncio.sleep(19)
            on.depose()
            await asyncio.sleep(40)
            assert (await on.other.task(task)).status is TaskStatus.ASSIGNED
            on.depose()
            await asyncio.sleep(70)
            assert (await on.other.task(task)).status is TaskStatus.PENDING

    run_simulated(scene())


def test_a_follower_sees_what_short_lived_sessions_of_the_leader_measure() -> None:
    async def scene() -> None:
        rarely = SessionSettings(timeout_s=90.0, heartbeat_interval_s=30.0)
        async with two(session=rarely) as on:
            await configure(on.one, session_timeout_s=3.0, heartbeat_interval_s=1.0)
            await asyncio.sleep(31)
            node = await on.one.node()
            for _ in range(10):
                await asyncio.sleep(1)
                await node.beat()
            heard = on.one.control.state.sessions[node.session_id].last_heartbeat
            seen = on.other.control.state.sessions[node.session_id].last_heartbeat
            assert heard - seen <= 3

    run_simulated(scene())


def test_lines_and_samples_of_a_node_are_taken_by_any_master() -> None:
    async def scene() -> None:
        async with two(delay_s=unheard) as on:
            node = await on.one.node()
            task = await on.one.submit()
            work = await node.take()
            said = LogLine(seq=1, at=EPOCH, message="hello")
            note = Note(execution_id=work.execution_id, lines=(said,))
            batch = NoteBatch(session_id=node.session_id, notes=(note,))
            assert (await on.other.control.logs.take(node.id, batch)).stale == ()
            lines, _ = await on.one.control.logs.find(work.execution_id, after=0, limit=9)
            assert [line.message for line in lines] == ["hello"]
            await beat(on.other, node, active_tasks=(task.id,))
            await asyncio.sleep(11)
            samples = await on.one.control.history.read(node.id, Resolution.RAW, since=0.0, limit=9)
            assert [sample.active_tasks for sample in samples] == [1]

    run_simulated(scene())
