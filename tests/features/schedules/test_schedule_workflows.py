"""Schedules that run workflows, and how many tasks they may start at once."""

import asyncio
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.errors import Conflict, InvalidRequest
from crawlfleet.features.schedules.model import Firing, Outcome, Overlap, Schedule
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.views import ScheduledWorkflow, SchedulePatch, ScheduleRequest
from crawlfleet.features.workflows.model import Run, RunStatus, Workflow
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.admin_requests import QuotaPatch
from crawlfleet.model.project import ProjectStatus
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from tests.control.stage import PlayedNode, Stage, stage

DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
FAR = 1e6


async def keep(on: Stage, *, step: str = "fetch", project_id: str = "default") -> Workflow:
    document = {
        "name": "shop",
        "project_id": project_id,
        "parameters": {"day": {"type": "integer", "default": 1}},
        "steps": {step: {"task_type": "work", "parameters": {"day": "${parameters.day}"}}},
    }
    workflow, _ = await on.control.service(Workflows).save(msgspec.json.encode(document), by="ann")
    return workflow


def request(workflow: ScheduledWorkflow | None = None, **fields: Any) -> ScheduleRequest:
    work = workflow or ScheduledWorkflow(name="shop", parameters={"day": 7})
    return ScheduleRequest(name="shops", workflow=work, **{"every_s": 60.0, **fields})


async def create(on: Stage, workflow: ScheduledWorkflow | None = None, **fields: Any) -> Schedule:
    schedule, created = await on.control.service(Schedules).create(
        request(workflow, **fields), by="ann"
    )
    assert created
    return schedule


async def history(on: Stage, schedule: Schedule) -> list[Firing]:
    found = await on.control.service(Schedules).history(schedule.id, after=None, limit=100)
    return found[::-1]


async def run_of(on: Stage, firing: Firing) -> Run:
    assert firing.run_id is not None
    return await on.control.service(Workflows).run(firing.run_id)


async def do_next(node: PlayedNode) -> None:
    await node.report(await node.take(), *DONE)


def test_a_workflow_is_run_at_every_due_instant_in_its_newest_version() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            schedule = await create(on)
            await asyncio.sleep(61)
            node = await on.node()
            await do_next(node)
            await keep(on, step="parse")
            await asyncio.sleep(60)
            node = await on.node("another")
            await do_next(node)
            await asyncio.sleep(1)
            fired = await history(on, schedule)
            assert [each.due_at for each in fired] == [EPOCH + 60, EPOCH + 120]
            assert [each.task_id for each in fired] == [None, None]
            runs = [await run_of(on, each) for each in fired]
            assert [run.number for run in runs] == [1, 2]
            assert [run.status for run in runs] == [RunStatus.COMPLETED] * 2
            assert msgspec.json.decode(runs[0].parameters) == {"day": 7}
            assert runs[0].cause == "its steps have ended"
            began = [event for event in on.heard.events if event.kind == "run.running"]
            assert began[0].cause == f"submitted by the schedule shops ({schedule.id})"
            told = [event for event in on.heard.events if event.kind == "schedule.started"]
            assert [event.details["run_id"] for event in told] == [run.id for run in runs]

    run_simulated(scene())


def test_a_version_that_is_named_stays() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            await keep(on, step="parse")
            schedule = await create(on, ScheduledWorkflow(name="shop", version=1))
            await asyncio.sleep(61)
            (fired,) = await history(on, schedule)
            assert (await run_of(on, fired)).number == 1

    run_simulated(scene())


def test_runs_that_have_not_ended_are_counted_and_one_waits_for_their_end() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            skips = await create(on)
            waits, _ = await on.control.service(Schedules).create(
                msgspec.structs.replace(request(overlap=Overlap.QUEUE), name="waits"), by="ann"
            )
            await asyncio.sleep(125)
            (first, skipped) = await history(on, skips)
            assert skipped.outcome is Outcome.SKIPPED
            assert first.run_id is not None
            assert first.run_id in skipped.reason
            assert await on.control.service(Schedules).running(skips) == []
            present = await on.control.service(Schedules).find(skips.id)
            assert await on.control.service(Schedules).running(present) == [first.run_id]
            with pytest.raises(Conflict, match=first.run_id):
                await on.control.service(Schedules).run(skips.id, force=False, by="ann")
            queued = (await history(on, waits))[1]
            assert queued.outcome is Outcome.QUEUED
            node = await on.node(slots=4)
            for work in await node.take_all():
                await node.report(work, *DONE)
            # At once, not at the next due instant.
            await asyncio.sleep(1)
            begun = (await history(on, waits))[1]
            assert (begun.outcome, begun.version) == (Outcome.STARTED, 2)
            assert (await run_of(on, begun)).status is RunStatus.RUNNING

    run_simulated(scene())


def test_run_now_and_backfill_start_runs_once() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            schedule = await create(on, every_s=FAR)
            fired = await on.control.service(Schedules).run(schedule.id, force=False, by="ann")
            assert (await run_of(on, fired)).status is RunStatus.RUNNING
            change = on.control.service(Schedules).change
            await change(schedule.id, SchedulePatch(cron="0 * * * *"), by="ann")
            since, until = EPOCH - 3 * 3600, EPOCH
            fill = on.control.service(Schedules).fill_back
            made, _ = await fill(schedule.id, since, until, dry_run=False, by="ann")
            assert len({each.run_id for each in made}) == 3
            again, already = await fill(schedule.id, since, until, dry_run=False, by="ann")
            assert (again, already) == ([], 3)

    run_simulated(scene())


def test_after_a_long_stop_each_late_one_is_run_once() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            await keep(on)
            schedule = await create(on, coalesce=False, max_instances=9)
        await asyncio.sleep(185)
        async with stage(store) as on:
            await asyncio.sleep(1)
            fired = await history(on, schedule)
            assert [each.outcome for each in fired] == [Outcome.STARTED] * 3
            assert len({each.run_id for each in fired}) == 3

    run_simulated(scene())


def test_a_task_and_a_workflow_take_each_others_place() -> None:
    async def scene() -> None:
        async with stage() as on:
            kept = await keep(on)
            schedule = await create(on, every_s=FAR)
            change = on.control.service(Schedules).change
            by_name = SchedulePatch(workflow=ScheduledWorkflow(name=kept.id, parameters={"day": 7}))
            assert await change(schedule.id, by_name, by="ann") == schedule
            task = SchedulePatch(task=TaskRequest(task_type="work"))
            changed = await change(schedule.id, task, by="ann")
            assert (changed.workflow, changed.edition) == (None, 2)
            fired = await on.control.service(Schedules).run(schedule.id, force=False, by="ann")
            assert fired.task_id is not None
            back = await change(schedule.id, by_name, by="ann")
            assert (back.task, back.workflow) == (schedule.task, schedule.workflow)
            # The task that is still at work takes its place.
            with pytest.raises(Conflict, match=fired.task_id):
                await on.control.service(Schedules).run(schedule.id, force=False, by="ann")

    run_simulated(scene())


@pytest.mark.parametrize(
    ("workflow", "wrong"),
    [
        ({"name": "shup"}, "workflow.name: is no workflow of the project 'default'"),
        ({"name": "shop", "project_id": "x"}, "workflow.name: is no workflow of the project 'x'"),
        ({"name": "shop", "version": 2}, "workflow.version: is no version of shop"),
        (
            {"name": "shop", "parameters": {"dya": 1}},
            "workflow.parameters.dya: is not a parameter",
        ),
        ({"name": "shop", "parameters": {"day": "x"}}, "workflow.parameters.day: is"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_field(workflow: dict[str, Any], wrong: str) -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            with pytest.raises(InvalidRequest) as caught:
                await create(on, ScheduledWorkflow(**workflow))
            assert wrong in str(caught.value)
            assert all(each.remedy for each in caught.value.problems)

    run_simulated(scene())


def test_one_of_task_and_workflow_is_asked_for() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on)
            both = msgspec.structs.replace(request(), task=TaskRequest(task_type="work"))
            with pytest.raises(InvalidRequest, match="workflow: is set beside task"):
                await on.control.service(Schedules).create(both, by="ann")
            neither = ScheduleRequest(name="shops", every_s=60.0)
            with pytest.raises(InvalidRequest, match="task: is missing, and so is workflow"):
                await on.control.service(Schedules).create(neither, by="ann")
            schedule = await create(on)
            patch = SchedulePatch(workflow=ScheduledWorkflow(name="shop", project_id="x"))
            with pytest.raises(InvalidRequest, match=r"workflow\.project_id"):
                await on.control.service(Schedules).change(schedule.id, patch, by="ann")

    run_simulated(scene())


def test_what_does_not_fit_any_more_is_refused_in_the_history() -> None:
    async def scene() -> None:
        async with stage() as on:
            await keep(on, project_id="shop")
            named = ScheduledWorkflow(name="shop", project_id="shop", parameters={"day": 7})
            schedule = await create(on, named)
            assert schedule.project_id == "shop"
            document = {
                "name": "shop",
                "project_id": "shop",
                "steps": {"fetch": {"task_type": "work"}},
            }
            await on.control.service(Workflows).save(msgspec.json.encode(document), by="ann")
            await asyncio.sleep(61)
            await keep(on, project_id="shop")
            await on.control.projects.move("shop", ProjectStatus.CLOSED, by="ann")
            await asyncio.sleep(60)
            refused = await history(on, schedule)
            assert [each.outcome for each in refused] == [Outcome.REFUSED] * 2
            assert "parameters.day: is not a parameter" in refused[0].reason
            assert "'shop' is closed" in refused[1].reason

    run_simulated(scene())


def test_late_tasks_are_accepted_only_as_far_as_the_quota_goes() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            wanted = ScheduleRequest(
                name="pulse",
                task=TaskRequest(task_type="work"),
                every_s=60.0,
                coalesce=False,
                max_instances=9,
            )
            schedule, _ = await on.control.service(Schedules).create(wanted, by="ann")
            await on.control.projects.set_quotas("default", QuotaPatch(waiting=2), by="ann")
        await asyncio.sleep(245)
        async with stage(store) as on:
            await asyncio.sleep(1)
            fired = await history(on, schedule)
            assert [each.outcome for each in fired] == [
                *[Outcome.STARTED] * 2,
                *[Outcome.REFUSED] * 2,
            ]
            assert "quota waiting" in fired[2].reason
            # What was started has been counted once.
            assert on.control.quotas.use("default").waiting == 2
            await on.control.projects.set_quotas("default", QuotaPatch(waiting=4), by="ann")
            by_minute = SchedulePatch(cron="* * * * *")
            await on.control.service(Schedules).change(schedule.id, by_minute, by="ann")
            since, until = EPOCH - 3600, EPOCH
            fill = on.control.service(Schedules).fill_back
            with pytest.raises(Conflict, match="the task 3 of 60 of pulse is not accepted"):
                await fill(schedule.id, since, until, dry_run=False, by="ann")
            assert on.control.quotas.use("default").waiting == 2

    run_simulated(scene())
