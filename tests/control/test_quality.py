"""Expectations on a control plane: judged with the end of the task, compared, held, decided."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control import quality as measuring
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import Conflict, InvalidRequest, OutputUnavailable, StoreUnavailable
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.schedules.views import ScheduleRequest
from crawlfleet.features.workflows.model import Run, RunStatus
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.quality import Decision, Expectations, MeasuredRun, OnDrift, Verdict
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import Task, TaskStatus
from crawlfleet.model.wire.node_protocol import Assignment, Report, ReportBatch, ReportKind
from crawlfleet.model.wire.output import OutputSummary
from crawlfleet.ports.store import Change, Committed
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage
from tests.features.workflows.test_service import start, states, tasks_of

DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
GOOD = [{"price": number} for number in range(10)]
POOR = [{"price": None}] * 10


def expect(**fields: Any) -> Expectations:
    return msgspec.convert(fields, Expectations)


PRICES = expect(fields={"price": {"empty": 0.2}}, series="prices")


class Kept:
    """The part of an `OutputStore` that measuring reads."""

    def __init__(self, *lines: Any, trouble: str = "") -> None:
        self.lines = lines
        self._trouble = trouble
        self.reads = 0

    async def summary(self, task_id: str, stream: str, *, completed: bool) -> Any:
        assert (stream, completed) == ("items", True)
        return OutputSummary(items=len(self.lines), bytes=1)

    async def read(
        self, task_id: str, stream: str, *, completed: bool, skip: int = 0
    ) -> AsyncIterator[bytes]:
        self.reads += 1
        if self._trouble:
            raise OutputUnavailable(self._trouble)
        for line in self.lines:
            yield msgspec.json.encode(("items", line)) + b"\n"

    async def tasks(self) -> Sequence[str]:
        return []

    async def sizes(self) -> dict[str, int]:
        return {}


async def finish(node: PlayedNode, assignment: Assignment, data: Any, **metrics: float) -> None:
    report = Report(
        execution_id=assignment.execution_id,
        task_id=assignment.task_id,
        token=assignment.token,
        kind=ReportKind.SUCCEEDED,
        at=0.0,
        data=msgspec.Raw(msgspec.json.encode(data)),
        metrics=metrics,
    )
    batch = ReportBatch(session_id=node.session_id, reports=(report,))
    await node._control.leases.report(node.id, batch)


async def do(on: Stage, node: PlayedNode, data: Any, **fields: Any) -> Task:
    """A task that has ended with this."""
    task = await on.submit(**fields)
    await finish(node, await node.take(), data)
    return await on.task(task)


async def newest(on: Stage, task: Task) -> MeasuredRun:
    return (await on.control.quality.of_task(task.id))[0]


def quality(task: Task) -> dict[str, Any]:
    assert task.result is not None
    found: dict[str, Any] = msgspec.json.decode(task.result)["quality"]
    return found


def kinds(on: Stage, task: Task) -> list[str]:
    return [event.kind for event in on.heard.events if event.subject == task.id]


def test_the_verdict_is_in_the_commit_of_the_end() -> None:
    class Watched(MemoryStore):
        ends: list[Change] = []  # noqa: RUF012

        async def commit(self, changes: Sequence[Change]) -> Committed:
            self.ends += [each for each in changes if each.of(MeasuredRun)]
            return await super().commit(changes)

    async def scene() -> None:
        store = Watched()
        async with stage(store) as on:
            node = await on.node()
            good = await do(on, node, GOOD, expectations=PRICES)
            poor = await do(on, node, POOR, expectations=PRICES)
            await asyncio.sleep(0.1)
            assert good.status is poor.status is TaskStatus.COMPLETED
            assert quality(good)["verdict"] == "ok"
            assert quality(poor)["verdict"] == "failed"
            (check,) = quality(poor)["checks"]
            assert (check["measured"], check["max"]) == (1.0, 0.2)
            assert kinds(on, good)[-1] == "task.completed"
            assert kinds(on, poor)[-2:] == ["task.completed", "task.drifted"]
            ended = [each.tasks[0] for each in store.ends]
            assert [(each.id, each.status) for each in ended] == [
                (good.id, "completed"),
                (poor.id, "completed"),
            ]
            run = await newest(on, poor)
            assert (run.verdict, run.decision) == (Verdict.FAILED, Decision.NONE)
            assert run.profile.items == 10

    run_simulated(scene())


def test_a_task_without_expectations_is_measured_by_nobody() -> None:
    async def scene() -> None:
        kept: Any = Kept(*POOR)
        async with stage(output=kept) as on:
            task = await do(on, await on.node(), POOR)
            assert task.result is not None
            assert "quality" not in msgspec.json.decode(task.result)
            assert kept.reads == 0
            assert await on.control.quality.of_task(task.id) == []
            with pytest.raises(Conflict, match="nothing was measured"):
                await on.control.quality.decide(task.id, Decision.ACCEPTED, by="ann")

    run_simulated(scene())


def test_a_task_fails_by_its_items_and_may_be_tried_again() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            expected = msgspec.structs.replace(PRICES, on_drift=OnDrift.FAIL)
            task = await do(on, node, POOR, expectations=expected)
            assert task.status is TaskStatus.FAILED
            assert task.error is not None
            assert "price is empty in 100 % of the items" in task.error.message
            assert task.dead_reason == "its items are not as expected"
            assert task.result is not None
            assert msgspec.json.decode(task.result)["data"] == POOR
            await on.order(Verb.RETRY, task)
            await asyncio.sleep(0.1)
            await finish(node, await node.take(), GOOD)
            again = await on.task(task)
            assert (again.status, again.error) == (TaskStatus.COMPLETED, None)
            found = await on.control.quality.of_task(task.id)
            assert [str(each.verdict) for each in found] == ["ok", "failed"]

    run_simulated(scene())


def test_stored_output_is_what_is_measured_and_not_the_result() -> None:
    async def scene() -> None:
        kept: Any = Kept(*POOR)
        async with stage(output=kept) as on:
            node = await on.node()
            task = await do(on, node, GOOD, expectations=PRICES)
            assert quality(task)["verdict"] == "failed"
            assert kept.reads == 1

    run_simulated(scene())


class Garbled(Kept):
    async def read(self, *names: Any, **options: Any) -> AsyncIterator[bytes]:
        yield self.lines[0]


def test_items_that_nobody_can_read_keep_no_task_from_its_end() -> None:
    async def scene(lines: bytes) -> None:
        kept: Any = Garbled(lines)
        async with stage(output=kept) as on:
            task = await do(on, await on.node(), GOOD, expectations=PRICES)
            assert task.status is TaskStatus.COMPLETED
            assert quality(task)["verdict"] == "unmeasured"

    for lines in (
        b"{}\n",
        b"[1]\n",
        b'["items"',
        b"\xff\n",
        b'["items",{"\xff":1}]\n',
        b"[" * 9999,
    ):
        run_simulated(scene(lines))


def test_output_that_cannot_be_read_is_told_and_spoils_no_task() -> None:
    async def scene() -> None:
        kept: Any = Kept(*GOOD, trouble="the disk is gone")
        async with stage(output=kept) as on:
            node = await on.node()
            expected = msgspec.structs.replace(PRICES, on_drift=OnDrift.FAIL)
            task = await do(on, node, GOOD, expectations=expected)
            await asyncio.sleep(0.1)
            assert task.status is TaskStatus.COMPLETED
            assert quality(task)["verdict"] == "unmeasured"
            assert kinds(on, task)[-1] == "task.unmeasured"
            assert "the disk is gone" in (await newest(on, task)).profile.trouble

    run_simulated(scene())


def test_a_report_that_comes_again_is_measured_and_recorded_once() -> None:
    async def scene() -> None:
        kept: Any = Kept(*POOR)
        async with stage(output=kept) as on:
            node = await on.node()
            task = await on.submit(expectations=PRICES)
            work = await node.take()
            await asyncio.gather(*(finish(node, work, GOOD) for _ in range(5)))
            await finish(node, work, GOOD)
            assert kept.reads == 1
            assert len(await on.control.quality.of_task(task.id)) == 1

    run_simulated(scene())


async def beat(node: PlayedNode, task: Task) -> None:
    while True:
        await node.beat(task.id)
        await asyncio.sleep(1)


def test_a_long_measurement_is_waited_for_by_who_asks_again() -> None:
    class Slow(Kept):
        async def read(self, *names: Any, **options: Any) -> AsyncIterator[bytes]:
            await asyncio.sleep(30)
            async for piece in super().read(*names, **options):
                yield piece

    async def scene() -> None:
        kept: Any = Slow(*POOR)
        async with stage(output=kept) as on:
            node = await on.node()
            task = await on.submit(expectations=PRICES)
            work = await node.take()
            await node.report(work, ReportKind.STARTED)
            beating = asyncio.create_task(beat(node, task))
            began = asyncio.get_running_loop().time()
            with pytest.raises(StoreUnavailable, match="measured"):
                await finish(node, work, GOOD)
            assert asyncio.get_running_loop().time() - began <= measuring.MAX_WAIT_S + 1
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await finish(node, work, GOOD)
            beating.cancel()
            assert (await on.task(task)).status is TaskStatus.COMPLETED
            assert kept.reads == 1

    run_simulated(scene())


def test_a_run_is_compared_with_earlier_ones_of_its_series() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            expected = expect(series="shop", drift={"items": 0.2, "least": 2})

            async def found(count: int, **fields: Any) -> tuple[Task, str]:
                more = {"expectations": expected, **fields}
                task = await do(on, node, [{"n": n} for n in range(count)], **more)
                await asyncio.sleep(0.1)
                return task, quality(task)["verdict"]

            verdicts = [(await found(count))[1] for count in (100, 100, 110)]
            assert verdicts == ["ok", "ok", "ok"]
            fewer, verdict = await found(50)
            assert verdict == "drifted"
            # What drifted is no measure of what comes after it.
            assert (await found(50))[1] == "drifted"
            assert (await found(100))[1] == "ok"
            # In another project, the same name is another series.
            assert (await found(7, project_id="other"))[1] == "ok"
            # Until somebody says that it is right.
            again, verdict = await found(50)
            assert verdict == "drifted"
            await on.control.quality.decide(again.id, Decision.ACCEPTED, by="ann")
            assert (await found(52))[1] == "ok"
            assert (await found(100))[1] == "drifted"
            listed = await on.control.quality.series(project_id=None, after=None, limit=9)
            assert [each.series for each in listed] == ["default/shop", "other/shop"]
            runs = await on.control.quality.runs("default", "shop", after=None, limit=99)
            assert len(runs) == 9
            with pytest.raises(Conflict, match="accepted by ann"):
                await on.control.quality.decide(again.id, Decision.REJECTED, by="bob")
            await on.control.quality.decide(again.id, Decision.ACCEPTED, by="bob")
            with pytest.raises(Conflict, match="as expected"):
                await on.control.quality.decide(runs[-1].task_id, Decision.ACCEPTED, by="ann")
            assert "drifted" in (await on.control.queries.explain(fewer.id)).summary

    run_simulated(scene())


def test_what_may_not_be_expected_is_refused_with_its_field() -> None:
    async def scene() -> None:
        async with stage() as on:
            with pytest.raises(InvalidRequest) as refused:
                await on.submit(expectations=expect(drift={"items": 0.1}))
            assert [each.field for each in refused.value.problems] == ["expectations.series"]

    run_simulated(scene())


def test_a_split_list_is_judged_as_a_whole() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            urls = [f"https://h{number}.example/" for number in range(40)]
            parameters = msgspec.Raw(msgspec.json.encode({"urls": urls, "shards": 4}))
            expected = expect(
                items={"min": 35, "max": 45}, pages={"min": 40}, fields={"status": {"max": 299}}
            )
            fields = {"task_type": "http_fetch", "parameters": parameters}
            task = await on.submit(**fields, expectations=expected)
            await asyncio.sleep(0.1)
            for work in await node.take_all():
                asked = msgspec.json.decode(work.parameters)["urls"]
                pages = [{"url": url, "status": 200} for url in asked]
                data = {"urls": len(asked), "pages": pages, "errors": []}
                await finish(node, work, data, fetched=len(asked), failed=0, urls=len(asked))
            await asyncio.sleep(0.1)
            done = await on.task(task)
            assert done.status is TaskStatus.COMPLETED
            assert quality(done)["verdict"] == "ok"
            run = await newest(on, done)
            assert (run.profile.items, run.profile.pages, run.profile.errors) == (40, 40, 0.0)
            shards = [each for each in on.heard.events if "parent_id" in each.details]
            assert shards
            assert all(each.kind != "task.drifted" for each in shards)

    run_simulated(scene())


def test_a_split_task_fails_by_the_items_of_all_shards() -> None:
    async def scene() -> None:
        kept: Any = Kept(*POOR)
        async with stage(output=kept) as on:
            node = await on.node(slots=9)
            urls = [f"https://h{number}.example/" for number in range(40)]
            parameters = msgspec.Raw(msgspec.json.encode({"urls": urls, "shards": 2}))
            expected = msgspec.structs.replace(PRICES, on_drift=OnDrift.FAIL)
            fields = {"task_type": "http_fetch", "parameters": parameters}
            task = await on.submit(**fields, expectations=expected)
            await asyncio.sleep(0.1)
            for work in await node.take_all():
                await finish(node, work, [])
            await asyncio.sleep(0.1)
            failed = await on.task(task)
            assert failed.status is TaskStatus.FAILED
            assert kept.reads == 1
            assert kinds(on, failed)[-2:] == ["task.failed", "task.drifted"]

    run_simulated(scene())


def test_a_schedule_is_the_series_of_its_tasks() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            template = TaskRequest(task_type="work", expectations=expect(drift={"items": 0.1}))
            request = ScheduleRequest(name="nightly", every_s=60.0, task=template)
            schedule, _ = await on.control.service(Schedules).create(request, by="people")
            await on.control.service(Schedules).run(schedule.id, force=False, by="people")
            await asyncio.sleep(0.1)
            await finish(node, await node.take(), GOOD)
            (run,) = await on.control.quality.series(project_id=None, after=None, limit=9)
            assert run.series == "default/schedule.nightly"

    run_simulated(scene())


def flow(on_drift: str = "hold", **fields: Any) -> dict[str, Any]:
    crawl = {
        "task_type": "work",
        "expectations": {"items": {"min": 5}, "on_drift": on_drift},
        **fields,
    }
    load = {"task_type": "work", "depends_on": ["crawl"]}
    alarm = {"task_type": "work", "depends_on": [{"step": "crawl", "on": "failure"}]}
    defaults = {"max_retries": 0}
    steps = {"crawl": crawl, "load": load, "alarm": alarm}
    return {"name": "prices", "defaults": defaults, "steps": steps}


async def crawled(on: Stage, node: PlayedNode, run: Run, data: Any) -> list[Task]:
    """The tasks of the first step, after they have ended with this."""
    await asyncio.sleep(0.1)
    for work in await node.take_all():
        await finish(node, work, data)
    await asyncio.sleep(0.1)
    return [task for task in await tasks_of(on, run) if task.step and task.step.step == "crawl"]


def test_what_is_held_lets_nothing_follow_until_it_is_accepted() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            run = await start(on, flow())
            (task,) = await crawled(on, node, run, [])
            assert task.status is TaskStatus.COMPLETED
            assert await states(on, run) == {
                "crawl": "held",
                "load": "waiting",
                "alarm": "waiting",
            }
            plan, rows = await on.control.service(Workflows).standing(run)
            reason = rows[plan.places["crawl"]].reason
            assert f"crawlfleet quality accept {task.id}" in reason
            assert "there are 0 items" in reason
            explained = await on.control.queries.explain(task.id)
            assert "held until somebody accepts" in explained.summary
            await asyncio.sleep(3600)
            node = await on.node("m", slots=9)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.RUNNING
            await on.control.quality.decide(task.id, Decision.ACCEPTED, by="ann", reason="fine")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "completed"
            await finish(node, await node.take(), None)
            await asyncio.sleep(0.1)
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.COMPLETED
            assert ended.counts == {"completed": 2, "skipped": 1}
            assert (await newest(on, task)).series == "default/workflow.prices.crawl"

    run_simulated(scene())


def test_what_is_rejected_has_failed_and_is_done_anew_when_the_run_is() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            run = await start(on, flow())
            (task,) = await crawled(on, node, run, [])
            await on.control.quality.decide(task.id, Decision.REJECTED, by="ann", reason="broken")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "failed"
            await finish(node, await node.take(), None)
            await asyncio.sleep(0.1)
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.FAILED
            assert f"{task.id} was rejected by ann: broken" in ended.error
            await on.control.service(Workflows).rerun(run.id, by="people")
            tasks = await crawled(on, node, run, GOOD)
            assert len(tasks) == 2
            assert (await states(on, run))["crawl"] == "completed"

    run_simulated(scene())


def test_a_split_step_that_failed_by_its_items_is_done_anew_when_the_run_is() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            urls = [f"https://h{number}.example/" for number in range(8)]
            parameters = {"urls": urls, "shards": 2}
            document = flow("fail", task_type="http_fetch", parameters=parameters)
            del document["steps"]["alarm"]
            run = await start(on, document)

            async def fetched(count: int) -> None:
                await asyncio.sleep(0.1)
                for work in await node.take_all():
                    pages = [{"url": url, "status": 200} for url in urls[:count]]
                    await finish(node, work, {"pages": pages, "errors": []})
                await asyncio.sleep(0.1)

            await fetched(1)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.FAILED
            await on.control.service(Workflows).rerun(run.id, by="people")
            await fetched(4)
            assert (await states(on, run))["crawl"] == "completed"

    run_simulated(scene())


def test_what_is_good_or_only_marked_holds_nothing_and_what_fails_does() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            for on_drift, data, found in (
                ("hold", GOOD, "completed"),
                ("mark", [], "completed"),
                ("fail", [], "failed"),
            ):
                run = await start(on, flow(on_drift))
                await crawled(on, node, run, data)
                assert (await states(on, run))["crawl"] == found
                for work in await node.take_all():
                    await finish(node, work, None)
                await asyncio.sleep(0.1)

    run_simulated(scene())


def test_all_instances_have_to_be_accepted_and_each_is_its_own_series() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            run = await start(on, flow(for_each=[1, 2]))
            one, two = await crawled(on, node, run, [])
            await on.control.quality.decide(one.id, Decision.ACCEPTED, by="ann")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "held"
            await on.control.quality.decide(two.id, Decision.ACCEPTED, by="ann")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "completed"
            found = [(await newest(on, each)).series for each in (one, two)]
            names = ["default/workflow.prices.crawl.0", "default/workflow.prices.crawl.1"]
            assert sorted(found) == names

    run_simulated(scene())


def test_a_held_run_can_be_cancelled() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            run = await start(on, flow())
            await crawled(on, node, run, [])
            await on.control.service(Workflows).cancel(run.id, by="people")
            await asyncio.sleep(0.1)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.CANCELLED

    run_simulated(scene())


def test_a_hold_outlives_the_master() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node(slots=9)
            run = await start(on, flow())
            (task,) = await crawled(on, node, run, [])
        async with stage(store, name="second") as on:
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "held"
            await on.control.quality.decide(task.id, Decision.ACCEPTED, by="ann")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "completed"

    run_simulated(scene())


def test_only_so_many_runs_of_a_series_are_kept() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=0, events_days=0, quality_runs=3)
        async with stage(retention=retention) as on:
            node = await on.node()
            for _ in range(6):
                await do(on, node, GOOD, expectations=PRICES)
                await asyncio.sleep(0.1)
            await asyncio.sleep(3 * 3600)
            runs = await on.control.quality.runs("default", "prices", after=None, limit=99)
            assert len(runs) == 3

    run_simulated(scene())
