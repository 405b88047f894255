"""A node that hangs up is given a little time to come back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.nodes.lost_connections import POLLS_AGAIN_S, NodeConnection
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import LeaseRequest, ReportKind, ReportOutcome
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage
from tests.control.test_masters import agree, two


def test_the_work_of_a_node_that_hung_up_goes_elsewhere_before_its_session_times_out() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node("dying")
            task = await on.submit()
            assignment = await node.take()
            other = await on.node("other")

            on.control.lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(1.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE
            await asyncio.sleep(1.0)

            assert on.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE
            again = await other.take()
            assert again.task_id == task.id
            late = await node.report(assignment, ReportKind.SUCCEEDED)
            assert late == [ReportOutcome.STALE]
            await other.report(again, ReportKind.STARTED, ReportKind.SUCCEEDED)
            assert (await on.task(task)).status is TaskStatus.COMPLETED

    run_simulated(scene())


def test_a_node_that_is_heard_again_keeps_its_work() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            await on.submit()
            assignment = await node.take()

            on.control.lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(1.0)
            on.control.lost_connections.note_request(node.id, NodeConnection())
            await asyncio.sleep(5.0)

            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE
            recorded = await node.report(assignment, ReportKind.SUCCEEDED)
            assert recorded == [ReportOutcome.RECORDED]

    run_simulated(scene())


def test_a_node_that_turned_to_another_master_keeps_its_work() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            await on.one.submit()
            assignment = await node.take()
            for here, there in ((on.one, on.other), (on.other, on.one)):
                here.control.lost_connections.mark_lost(node.id, node.session_id)
                node.turn_to(there)
                await node.beat(assignment.task_id)
                # Even if the first one hears of that before it looks.
                await here.control.state.refresh.sessions([node.session_id])
                await asyncio.sleep(2.5)
                assert here.control.nodes.get(node.id).status is NodeStatus.ONLINE
            recorded = await node.report(assignment, ReportKind.SUCCEEDED)
            assert recorded == [ReportOutcome.RECORDED]

    run_simulated(scene())


def test_a_follower_misses_a_node_that_hung_up_there() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.other.node()
            task = await on.other.submit()
            await node.take()
            on.other.control.lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(2.0)
            assert on.one.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE
            assert (await on.one.task(task)).status is TaskStatus.PENDING
            await agree(on)

    run_simulated(scene())


@pytest.mark.parametrize(
    ("by_peer", "later_s", "status"),
    [
        (True, 0.0, NodeStatus.UNRESPONSIVE),
        (True, POLLS_AGAIN_S + 0.1, NodeStatus.ONLINE),
        (False, 0.0, NodeStatus.ONLINE),
    ],
)
def test_a_node_that_polled_and_closes_its_last_connection_has_died(
    by_peer: bool, later_s: float, status: NodeStatus
) -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            lost_connections = on.control.lost_connections
            first, last = NodeConnection(), NodeConnection()
            for connection in (first, last):
                lost_connections.note_request(node.id, connection)
            lost_connections.expect_poll(node.id)
            first.lose(by_peer=True)
            await asyncio.sleep(later_s)
            last.lose(by_peer=by_peer)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is status

    run_simulated(scene())


def test_a_node_with_another_connection_is_not_suspected() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            first, other = NodeConnection(), NodeConnection()
            for connection in (first, other):
                on.control.lost_connections.note_request(node.id, connection)
            on.control.lost_connections.expect_poll(node.id)
            first.lose(by_peer=True)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE

    run_simulated(scene())


def test_a_connection_that_another_node_used_since_is_not_the_first_ones() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node, other = await on.node(), await on.node("other")
            shared = NodeConnection()
            on.control.lost_connections.note_request(node.id, shared)
            on.control.lost_connections.expect_poll(node.id)
            on.control.lost_connections.note_request(other.id, shared)
            shared.lose(by_peer=True)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE
            assert on.control.nodes.get(other.id).status is NodeStatus.ONLINE

    run_simulated(scene())


def test_what_a_node_said_before_its_connection_broke_is_no_sign_of_life() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            lost_connections = on.control.lost_connections
            broken, other = NodeConnection(), NodeConnection()
            lost_connections.expect_poll(node.id)
            lost_connections.mark_lost(node.id, node.session_id)
            broken.lose(by_peer=True)
            lost_connections.note_request(node.id, broken)
            await asyncio.sleep(1.0)
            lost_connections.note_request(
                node.id, other
            )  # this one is broken, too, as is known later
            other.lose(by_peer=True)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE

    run_simulated(scene())


def test_a_heartbeat_that_was_under_way_is_no_sign_of_life() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            beating = asyncio.create_task(node.beat())
            await asyncio.sleep(0.01)
            on.control.lost_connections.mark_lost(node.id, node.session_id)
            assert not (await beating).session_lost
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE

    run_simulated(scene())


def test_a_heartbeat_that_was_under_way_hides_none_at_another_master() -> None:
    async def scene() -> None:
        async with two() as on:
            node = await on.one.node()
            beating = asyncio.create_task(node.beat())
            await asyncio.sleep(0.01)
            on.one.control.lost_connections.mark_lost(node.id, node.session_id)
            await beating
            await on.other.control.state.refresh.nodes([node.id])
            node.turn_to(on.other)
            await node.beat()
            await asyncio.sleep(2.0)
            assert on.one.control.nodes.get(node.id).status is NodeStatus.ONLINE

    run_simulated(scene())


def test_one_that_is_heard_while_another_is_ended_keeps_its_work() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            lost_connections = on.control.lost_connections
            dead, alive = await on.node("dead"), await on.node("alive")
            ending = on.control.leases.end_session

            async def end_session(*arguments: Any, **options: Any) -> None:
                lost_connections.note_request(alive.id, NodeConnection())
                await ending(*arguments, **options)

            lost_connections._leases = SimpleNamespace(end_session=end_session)  # type: ignore[assignment]
            for node in (dead, alive):
                lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(dead.id).status is NodeStatus.UNRESPONSIVE
            assert on.control.nodes.get(alive.id).status is NodeStatus.ONLINE

    run_simulated(scene())


def test_nothing_is_remembered_of_nodes_that_are_gone() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            lost_connections = on.control.lost_connections
            for number in range(5):
                node = await on.node(f"node {number}")
                connection = NodeConnection()
                lost_connections.note_request(node.id, connection)
                lost_connections.expect_poll(node.id)
                if number % 2:
                    await on.control.node_orders.unregister(node.id, by="test")
                connection.lose(by_peer=True)
                lost_connections.expect_poll(node.id)
                lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(2.0)
            assert (
                lost_connections._connections,
                lost_connections._polls_by,
                lost_connections._suspects,
            ) == (
                {},
                {},
                {},
            )

    run_simulated(scene())


def test_a_node_that_waits_elsewhere_again_did_not_die_with_its_old_poll() -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            lost_connections = on.control.lost_connections
            poll = LeaseRequest(session_id=node.session_id)
            old, new = NodeConnection(), NodeConnection()
            lost_connections.note_request(node.id, old)
            lost_connections.begin_poll(node.id, old)
            old.lose(by_peer=True)
            # The new poll is heard before the handler of the old one sees that it is over.
            lost_connections.note_request(node.id, new)
            lost_connections.begin_poll(node.id, new)
            lost_connections.note_poll_end(node.id, poll, old)
            lost_connections.end_poll(node.id, old)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE

            new.lose(by_peer=True)
            lost_connections.note_poll_end(node.id, poll, new)
            lost_connections.end_poll(node.id, new)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE

    run_simulated(scene())


def test_a_node_that_hangs_up_again_while_its_end_is_considered_has_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with stage(MemoryStore()) as on:
            node = await on.node()
            lost_connections, refresh = on.control.lost_connections, on.control.state.refresh
            renew = refresh.sessions

            async def slow(ids: Any) -> None:
                monkeypatch.setattr(refresh, "sessions", renew)
                lost_connections.note_request(node.id, NodeConnection())
                lost_connections.mark_lost(node.id, node.session_id)
                await renew(ids)

            monkeypatch.setattr(refresh, "sessions", slow)
            lost_connections.mark_lost(node.id, node.session_id)
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.ONLINE
            await asyncio.sleep(2.0)
            assert on.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE

    run_simulated(scene())
