"""What ought to be looked at, from what a running control plane knows."""

import asyncio

from crawlfleet.model.messages import ReportKind
from crawlfleet.model.task import ErrorClass
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


def test_tasks_that_nothing_can_run_are_named_with_the_reason() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await asyncio.sleep(10)
            (alone,) = await on.control.attention.find()
            assert alone.kind == "no_node_online"
            node = await on.node(task_types=("work",))
            await node.take()
            odd = await on.submit(task_type="render")
            huge = await on.submit(min_resources={"cpu_cores": 512})
            for _ in range(5):
                await node.beat()
                await asyncio.sleep(2)
            found = await on.control.attention.find()
            assert {each.subject.id for each in found} == {odd.id, huge.id}
            assert {each.kind for each in found} == {"nothing_can_run"}
            (stuck,) = [each for each in found if each.subject.id == odd.id]
            assert "without an executor for the task type" in stuck.message

    run_simulated(scene())


def test_a_project_is_told_of_its_own() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            for project in ("shop", "shop", "other"):
                await on.submit(project_id=project, max_retries=0)
                await node.report(await node.take(), ReportKind.FAILED, error=ErrorClass.NETWORK)
            whole, shop = [await on.control.attention.find(each) for each in (None, "shop")]
            assert [(each.kind, each.count) for each in whole] == [("dead_letters", 3)]
            assert [(each.kind, each.count) for each in shop] == [("dead_letters", 2)]
            assert await on.control.attention.find("nobody") == ()

    run_simulated(scene())
