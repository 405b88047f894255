"""Deadlines of tasks: submitted as a span, kept as an instant, and heeded by dispatch."""

from crawlfleet.model.requests import CloneRequest, TaskRequest
from crawlfleet.model.task import ErrorClass, TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


def test_the_nearest_deadline_is_served_first_and_nothing_is_retried_after_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await on.submit(deadline=3000.0)
            soon = await on.submit(deadline=0.5)
            assert soon.deadline == soon.created_at + 0.5
            node = await on.node(slots=1)
            assignment = await node.take()
            assert assignment.task_id == soon.id
            await node.report(
                assignment, ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.NETWORK
            )
            ended = await on.task(soon)
            assert ended.status is TaskStatus.FAILED
            assert ended.dead_reason == "its deadline passes before it could be tried again"

    run_simulated(scene())


def test_a_clone_has_as_much_time_as_the_original_had() -> None:
    async def scene() -> None:
        async with stage() as on:
            task = await on.submit(deadline=60.0)
            clone = (await on.control.tasks.clone(task.id, CloneRequest(), by="test")).task
            assert clone is not None
            assert clone.deadline is not None
            assert round(clone.deadline - clone.created_at, 3) == 60.0

    run_simulated(scene())


def test_a_deadline_that_is_no_span_is_refused() -> None:
    async def scene() -> None:
        async with stage() as on:
            request = TaskRequest(task_type="work", deadline=-1.0)
            (outcome,) = await on.control.tasks.submit_batch([request], by="test")
            assert [each.field for each in outcome.problems] == ["deadline"]

    run_simulated(scene())
