"""A node that hangs up is given a little time to come back."""

import asyncio

from crawlfleet.backends.memory import MemoryStore
from crawlfleet.model.messages import ReportKind, ReportOutcome
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.task import TaskStatus
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

            on.control.suspicion.suspect(node.id, node.session_id)
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

            on.control.suspicion.suspect(node.id, node.session_id)
            await asyncio.sleep(1.0)
            on.control.suspicion.hear(node.id)
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
                here.control.suspicion.suspect(node.id, node.session_id)
                node.turn_to(there)
                await node.beat(assignment.task_id)
                # Even if the first one hears of that before it looks.
                await here.control.state.renewal.sessions([node.session_id])
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
            on.other.control.suspicion.suspect(node.id, node.session_id)
            await asyncio.sleep(2.0)
            assert on.one.control.nodes.get(node.id).status is NodeStatus.UNRESPONSIVE
            assert (await on.one.task(task)).status is TaskStatus.PENDING
            await agree(on)

    run_simulated(scene())
