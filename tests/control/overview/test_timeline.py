"""Numbers over time, as charts want them."""

import asyncio
import itertools

from crawlfleet.control.overview.series import STEP_S
from crawlfleet.model.log import Progress
from crawlfleet.model.statistics import Series
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import Note, NoteBatch, ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage


def total(series: Series, field: str) -> int:
    return sum(getattr(point, field) for point in series.points)


async def work(on: Stage) -> None:
    node = await on.node()
    good, bad = await on.submit(), await on.submit(project_id="shop", max_retries=0)
    for assignment in await node.take_all():
        if assignment.task_id == good.id:
            await node.report(assignment, ReportKind.SUCCEEDED)
        else:
            assert assignment.task_id == bad.id
            await node.report(assignment, ReportKind.FAILED, error=ErrorClass.NETWORK)


def test_the_line_shows_what_happened_and_when() -> None:
    async def scene() -> None:
        async with stage() as on:
            await asyncio.sleep(2 * STEP_S)
            await work(on)
            await asyncio.sleep(3 * STEP_S)
            series = on.control.timeline.points(60)
            assert (total(series, "finished"), total(series, "failed")) == (1, 1)
            assert [point.errors for point in series.points if point.errors] == [{"network": 1}]
            assert series.points[-1].tasks == {"completed": 1, "failed": 1}
            steps = [point.at.timestamp() for point in series.points]
            assert all(b - a == STEP_S for a, b in itertools.pairwise(steps))

            of_shop = on.control.timeline.points(60, project_id="shop")
            assert (total(of_shop, "finished"), total(of_shop, "failed")) == (0, 1)
            assert of_shop.points[-1].tasks == {"failed": 1}

    run_simulated(scene())


def test_a_task_that_waits_grows_older_on_the_line() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await asyncio.sleep(60)
            ages = [point.queue_age_s for point in on.control.timeline.points(30).points]
            assert len(ages) == 6
            assert all(b - a == STEP_S for a, b in itertools.pairwise(ages))
            assert 50 < ages[-1] <= 60

    run_simulated(scene())


def test_an_idle_master_asks_its_store_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await asyncio.sleep(90)  # until the peak of this hour is written, too
            asked = 0
            count = on.store.count_tasks_by_project

            async def counting():
                nonlocal asked
                asked += 1
                return await count()

            on.store.count_tasks_by_project = counting
            await asyncio.sleep(500)
            assert asked == 0
            assert on.control.timeline.points(60).points[-1].tasks == {"pending": 1}

    run_simulated(scene())


def test_the_line_is_an_hour_long() -> None:
    async def scene() -> None:
        async with stage() as on:
            for _ in range(80):
                await on.submit()
                await asyncio.sleep(60)
            points = on.control.timeline.points(1e6).points
            assert len(points) == 720
            assert points[0].tasks["pending"] >= 19
            assert points[-1].tasks["pending"] == 80

    run_simulated(scene())


def test_pages_of_crawls_are_counted_as_they_are_told() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit(task_type="web_crawl")
            await on.submit(task_type="work")
            taken = await node.take_all()
            for done in (5, 12, 12, 30):
                notes = tuple(
                    Note(execution_id=each.execution_id, progress=Progress(done=done, at=done))
                    for each in taken
                )
                batch = NoteBatch(session_id=node.session_id, notes=notes)
                await on.control.logs.take(node.id, batch)
                await asyncio.sleep(2)
            await asyncio.sleep(STEP_S)
            assert total(on.control.timeline.points(60), "pages") == 30

    run_simulated(scene())
