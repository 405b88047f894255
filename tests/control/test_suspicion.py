"""A node that hangs up is given a little time to come back."""

import asyncio

from crawlfleet.backends.memory import MemoryStore
from crawlfleet.model.messages import ReportKind, ReportOutcome
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.task import TaskStatus
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


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
