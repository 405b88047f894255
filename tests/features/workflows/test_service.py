"""Workflows on a control plane: steps in order, once, with the values of those before them."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, InvalidRequest, NotFound
from crawlfleet.features.workflows.model import Run, RunStatus
from crawlfleet.features.workflows.rules.engine import RunProgress, StepDecision
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope
from crawlfleet.features.workflows.rules.plan import PlannedStep
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.admin_requests import QuotaPatch
from crawlfleet.model.project import ProjectStatus
from crawlfleet.model.task import ErrorClass, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.ports.kernel_tables import PROJECTS
from crawlfleet.ports.store import TaskFilter
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage

DONE = (ReportKind.STARTED, ReportKind.SUCCEEDED)
WORK = {"task_type": "work"}
SHOP: dict[str, Any] = {
    "name": "shop",
    "parameters": {"start": {"type": "text", "default": "https://shop.example/"}},
    "defaults": {"max_retries": 0},
    "steps": {
        "list": {**WORK, "parameters": {"url": "${parameters.start}", "links": 3}},
        "fetch": {
            **WORK,
            "depends_on": ["list"],
            "for_each": "${steps.list.result.links}",
            "parameters": {"url": "${item}", "number": "${index}"},
            "priority": 8,
        },
        "parse": {
            **WORK,
            "depends_on": ["fetch"],
            "parameters": {"pages": "${steps.fetch.results[*].page}"},
        },
        "alarm": {**WORK, "depends_on": [{"step": "fetch", "on": "failure"}]},
        "report": {
            **WORK,
            "depends_on": [{"step": "parse", "on": "always"}],
            "when": "steps.parse.status != 'skipped'",
        },
    },
}


async def start(on: Stage, document: dict[str, Any], **more: Any) -> Run:
    workflow, _ = await on.control.service(Workflows).save(
        msgspec.json.encode(document), by="people"
    )
    run, _ = await on.control.service(Workflows).start(
        workflow.id, more.pop("parameters", {}), by="people", **more
    )
    return run


async def work(node: PlayedNode, *, failing: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Do all that there is, and what follows from it; the parameters in the order of the doing.

    What has a text of `failing` in it fails for good.
    """
    seen: list[dict[str, Any]] = []
    await asyncio.sleep(0.1)
    while assignments := await node.take_all():
        for assignment in assignments:
            parameters = msgspec.json.decode(assignment.parameters)
            seen.append(parameters)
            if any(each in bytes(assignment.parameters).decode() for each in failing):
                await node.report(
                    assignment, ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.INVALID
                )
                continue
            data: dict[str, Any] = {"page": parameters.get("url", "")}
            if "links" in parameters:
                data["links"] = [f"p{number}" for number in range(parameters["links"])]
            await node.report(assignment, *DONE, data=msgspec.json.encode(data))
        await asyncio.sleep(0.1)
    return seen


async def states(on: Stage, run: Run) -> dict[str, str]:
    found = await on.control.service(Workflows).run(run.id)
    plan, rows = await on.control.service(Workflows).standing(found)
    return {
        step.name: str(rows[step.place].status) if step.place in rows else "waiting"
        for step in plan.steps
    }


async def tasks_of(on: Stage, run: Run) -> list[Task]:
    found = await on.store.find_tasks(TaskFilter(workflow_id=run.id), after=None, limit=99)
    return sorted(
        found, key=lambda task: (task.step.step, task.step.index) if task.step else ("", 0)
    )


def test_steps_follow_each_other_with_the_values_of_those_before() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP, parameters={"start": "https://other.example/"})
            seen = await work(await on.node(slots=9))
            assert seen[0] == {"url": "https://other.example/", "links": 3}
            assert sorted(seen[1:4], key=lambda each: str(each["url"])) == [
                {"url": f"p{number}", "number": number} for number in range(3)
            ]
            assert seen[4:] == [{"pages": ["p0", "p1", "p2"]}, {}]
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.COMPLETED
            assert ended.counts == {"completed": 4, "skipped": 1}
            assert (await states(on, run))["alarm"] == "skipped"
            tasks = await tasks_of(on, run)
            assert [task.step.step for task in tasks if task.step] == [
                *["fetch"] * 3,
                "list",
                "parse",
                "report",
            ]
            assert {task.priority for task in tasks} == {5, 8}
            told = [e.kind for e in on.heard.events if e.subject == run.id]
            assert told[0] == "run.running"
            assert told[-1] == "run.completed"
            assert told.count("step.running") == told.count("step.completed") == 4

    run_simulated(scene())


def test_a_failed_step_skips_what_follows_its_success_and_begins_what_follows_its_failure() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            await work(await on.node(slots=9), failing=['"p1"'])
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.FAILED
            assert "fetch: 1 of 3 instances did not complete" in ended.error
            assert "it broke" in ended.error
            assert await states(on, run) == {
                "list": "completed",
                "fetch": "failed",
                "parse": "skipped",
                "alarm": "completed",
                "report": "skipped",
            }

    run_simulated(scene())


def test_a_run_goes_on_from_what_failed_and_does_nothing_again_that_was_done() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await work(node, failing=['"p1"'])
            before = {task.id: task for task in await tasks_of(on, run)}
            again = await on.control.service(Workflows).rerun(run.id, by="people")
            assert (again.status, again.attempt) == (RunStatus.RUNNING, 2)
            seen = await work(node)
            assert seen[0] == {"url": "p1", "number": 1}
            assert seen[1:] == [{"pages": ["p0", "p1", "p2"]}, {}]
            ended = await on.control.service(Workflows).run(run.id)
            assert (ended.status, ended.error) == (RunStatus.COMPLETED, "")
            assert (await states(on, run))["alarm"] == "skipped"
            for task in await tasks_of(on, run):
                if task.status is TaskStatus.COMPLETED and task.id in before:
                    old = before[task.id]
                    assert old.status is not TaskStatus.COMPLETED or old == task
            with pytest.raises(Conflict, match="all of its steps completed"):
                await on.control.service(Workflows).rerun(run.id, by="people")

    run_simulated(scene())


def test_a_run_that_goes_on_after_its_results_were_removed_says_so() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await work(node, failing=["p1"])
            tasks = await tasks_of(on, run)
            await on.store.remove_finished(before=on.control.now() + 1, limit=len(tasks))
            assert await tasks_of(on, run) == []
            await on.control.service(Workflows).rerun(run.id, by="people")
            assert not any("url" in parameters for parameters in await work(node))
            _, rows = await on.control.service(Workflows).standing(
                await on.control.service(Workflows).run(run.id)
            )
            assert any("results of list were removed" in row.reason for row in rows.values())

    run_simulated(scene())


def test_a_reason_can_be_stored_whatever_is_in_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            steps = {"a": WORK, "b": {**WORK, "depends_on": ["a"], "when": "steps.a.result.no"}}
            run = await start(on, {"name": "nul", "steps": steps})
            node = await on.node()
            await asyncio.sleep(0.1)
            (assignment,) = await node.take_all()
            await node.report(assignment, *DONE, data=msgspec.json.encode({"a\0b": 1}))
            await asyncio.sleep(0.1)
            _, rows = await on.control.service(Workflows).standing(
                await on.control.service(Workflows).run(run.id)
            )
            assert any("a\N{REPLACEMENT CHARACTER}b" in row.reason for row in rows.values())

    run_simulated(scene())


def test_a_run_can_be_done_again_from_a_chosen_step() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await work(node)
            first = {task.id for task in await tasks_of(on, run)}
            await on.control.service(Workflows).rerun(run.id, ("parse",), by="people")
            assert await work(node) == [{"pages": ["p0", "p1", "p2"]}, {}]
            new = {task.id for task in await tasks_of(on, run)} - first
            assert len(new) == 2, "new tasks, under ids of their own"
            with pytest.raises(InvalidRequest, match="names no step"):
                await on.control.service(Workflows).rerun(run.id, ("prase",), by="people")

    run_simulated(scene())


def test_cancelling_a_run_stops_its_tasks_and_begins_nothing_more() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            (listing,) = await node.take_all()
            await node.report(
                listing, *DONE, data=msgspec.json.encode({"links": ["p0", "p1"], "page": ""})
            )
            await asyncio.sleep(0.1)
            assert len(await node.take_all()) == 2
            cancelled = await on.control.service(Workflows).cancel(run.id, by="people")
            assert cancelled.status is RunStatus.CANCELLING
            await asyncio.sleep(0.5)
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.CANCELLED
            assert ended.counts == {"completed": 1, "cancelled": 4}
            fetched = [task for task in await tasks_of(on, run) if task.step]
            assert [task.status for task in fetched][:2] == [TaskStatus.CANCELLED] * 2
            assert len(fetched) == 3
            assert (
                await on.control.service(Workflows).cancel(run.id, by="people")
            ).version == ended.version
            # And it can be taken up again where it was left.
            await on.control.service(Workflows).rerun(run.id, by="people")
            await work(node)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.COMPLETED

    run_simulated(scene())


def test_a_task_that_somebody_cancels_counts_as_cancelled_for_its_step() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(
                on, {"name": "one", "steps": {"a": WORK, "b": {**WORK, "depends_on": ["a"]}}}
            )
            await asyncio.sleep(0.1)
            (task,) = await tasks_of(on, run)
            order = TaskOrder(verb=Verb.CANCEL, by="people")
            await on.control.orders.carry_out_one(order, task.id)
            await asyncio.sleep(0.5)
            assert await states(on, run) == {"a": "cancelled", "b": "skipped"}
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.CANCELLED

    run_simulated(scene())


def test_a_task_that_is_sent_back_before_its_step_has_ended_counts_by_its_last_end() -> None:
    async def scene() -> None:
        async with stage() as on:
            steps = {"a": {**WORK, "for_each": ["x", "y"], "parameters": {"url": "${item}"}}}
            document = {"name": "two", "steps": steps}
            run = await start(on, document)
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            one, other = await node.take_all()
            await node.report(one, ReportKind.STARTED, ReportKind.FAILED, error=ErrorClass.INVALID)
            await asyncio.sleep(0.1)
            order = TaskOrder(verb=Verb.RETRY, by="people")
            await on.control.orders.carry_out_one(order, one.task_id)
            await node.report(other, *DONE, data=b"{}")
            await asyncio.sleep(0.1)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.RUNNING
            await work(node)
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.COMPLETED

    run_simulated(scene())


def test_a_split_task_is_a_step_that_ends_with_its_last_shard() -> None:
    async def scene() -> None:
        async with stage() as on:
            urls = [f"https://h{number}.example/" for number in range(40)]
            steps = {
                "all": {"task_type": "http_fetch", "parameters": {"urls": urls, "shards": 3}},
                "after": {
                    **WORK,
                    "depends_on": ["all"],
                    "parameters": {"n": "${steps.all.result.urls}"},
                },
            }
            run = await start(on, {"name": "split", "steps": steps})
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            shards = await node.take_all()
            assert len(shards) == 3
            for shard in shards:
                count = len(msgspec.json.decode(shard.parameters)["urls"])
                await node.report(shard, *DONE, data=msgspec.json.encode({"urls": count}))
            await asyncio.sleep(0.2)
            assert await work(node) == [{"n": 40}]
            assert (await on.control.service(Workflows).run(run.id)).status is RunStatus.COMPLETED

    run_simulated(scene())


def test_a_master_that_starts_again_goes_on_with_what_it_finds() -> None:
    async def scene() -> None:
        async with contextlib.AsyncExitStack() as stack:
            on = await stack.enter_async_context(stage())
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            (listing,) = await node.take_all()
            data = msgspec.json.encode({"links": ["p0", "p1"], "page": ""})
            # The end of the step is committed, but nobody has heard of it.
            on.control.service(Workflows).runner.publish = _deaf  # type: ignore[method-assign]
            await node.report(listing, *DONE, data=data)
            await asyncio.sleep(0.2)
            assert (await states(on, run))["fetch"] == "waiting"
            store = on.store
            fresh = await stack.enter_async_context(stage(store=store))
            await asyncio.sleep(0.2)
            assert (await states(fresh, run))["fetch"] == "running"
            node.turn_to(fresh)
            assert len(await tasks_of(fresh, run)) == 3

    run_simulated(scene())


async def _deaf(events: Any) -> None:
    """A master that dies before it acts on what it hears."""


def test_events_that_come_again_begin_nothing_again() -> None:
    async def scene() -> None:
        async with stage() as on:
            run = await start(on, SHOP)
            node = await on.node(slots=9)
            await work(node, failing=['"p1"'])
            before = await tasks_of(on, run)
            events = await on.store.events(after=0, limit=1000)
            advancing = on.control.service(Workflows).runner
            await advancing.publish(events)
            advancing._runs.clear()
            await advancing.publish(events)
            await asyncio.sleep(0.2)
            assert await tasks_of(on, run) == before

    run_simulated(scene())


def test_a_step_whose_task_is_not_accepted_fails_with_the_reason() -> None:
    async def scene() -> None:
        async with stage() as on:
            steps = {"a": WORK, "b": {**WORK, "depends_on": ["a"]}}
            run = await start(on, {"name": "two", "project_id": "shop", "steps": steps})
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            await on.control.projects.move("shop", ProjectStatus.CLOSED, by="people")
            await work(node)
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.FAILED
            assert ended.error.startswith("b: the project 'shop' is closed")

    run_simulated(scene())


def test_the_same_document_is_the_same_version_and_another_is_the_next() -> None:
    async def scene() -> None:
        async with stage() as on:
            save = on.control.service(Workflows).save
            first, created = await save(msgspec.json.encode(SHOP), by="people")
            assert (created, first.latest, first.steps) == (True, 1, 5)
            again, created = await save(msgspec.json.encode(SHOP), by="others")
            assert (created, again) == (False, first)
            changed, created = await save(
                msgspec.json.encode({**SHOP, "description": "now with words"}), by="people"
            )
            assert (created, changed.id, changed.latest) == (True, first.id, 2)
            versions = await on.control.service(Workflows).versions(first.id, below=None, limit=9)
            assert [(each.number, each.made_by) for each in versions] == [
                (2, "people"),
                (1, "people"),
            ]
            run, _ = await on.control.service(Workflows).start(first.id, {}, by="people", number=1)
            assert run.number == 1
            with pytest.raises(NotFound, match="version 3"):
                await on.control.service(Workflows).start(first.id, {}, by="people", number=3)

    run_simulated(scene())


def test_the_same_key_gives_the_same_run() -> None:
    async def scene() -> None:
        async with stage() as on:
            workflow, _ = await on.control.service(Workflows).save(
                msgspec.json.encode(SHOP), by="people"
            )
            begin = on.control.service(Workflows).start
            first, new = await begin(workflow.id, {"start": "a"}, by="people", key="nightly-1")
            again, newer = await begin(workflow.id, {"start": "a"}, by="people", key="nightly-1")
            assert (new, newer, again.id) == (True, False, first.id)
            with pytest.raises(Conflict, match="was used for another run"):
                await begin(workflow.id, {"start": "b"}, by="people", key="nightly-1")

    run_simulated(scene())


def test_what_is_wrong_with_a_document_or_its_parameters_is_told() -> None:
    async def scene() -> None:
        async with stage() as on:
            save = on.control.service(Workflows).save
            with pytest.raises(InvalidRequest) as caught:
                await save(
                    msgspec.json.encode(
                        {"name": "x", "steps": {"a": {**WORK, "cluster_id": "no"}}}
                    ),
                    by="people",
                )
            assert caught.value.problems[0].field == "steps.a.cluster_id"
            workflow, _ = await save(msgspec.json.encode(SHOP), by="people")
            with pytest.raises(InvalidRequest, match=r"parameters\.start: is a number"):
                await on.control.service(Workflows).start(workflow.id, {"start": 3}, by="people")
            with pytest.raises(InvalidRequest, match="parameters: have 1000012 bytes"):
                await on.control.service(Workflows).start(
                    workflow.id, {"start": "x" * 1_000_000}, by="people"
                )
            with pytest.raises(NotFound):
                await on.control.service(Workflows).start("flow-none", {}, by="people")
            project = await on.store.get(PROJECTS, "default")
            assert project is not None
            await on.control.projects.move("default", ProjectStatus.CLOSED, by="people")
            with pytest.raises(Conflict, match="is closed"):
                await on.control.service(Workflows).start(workflow.id, {}, by="people")

    run_simulated(scene())


@pytest.mark.parametrize(
    ("sent", "condition", "reason"),
    [
        (b"1e999", "steps.a.result == 1", "b: the result of a cannot be read: Number out of range"),
        (b"9" * 5_000, "steps.a.result == 1", "b: the result of a cannot be read: Integer value"),
        (b"9" * 400, "steps.a.result + 1 > 0", "b: when: comes to a number that is too large"),
    ],
)
def test_a_result_that_cannot_be_computed_with_fails_the_step(
    sent: bytes, condition: str, reason: str
) -> None:
    async def scene() -> None:
        async with stage() as on:
            steps = {"a": WORK, "b": {**WORK, "depends_on": ["a"], "when": condition}}
            run = await start(on, {"name": "two", "steps": steps})
            node = await on.node(slots=9)
            await asyncio.sleep(0.1)
            for assignment in await node.take_all():
                await node.report(assignment, *DONE, data=sent)
            await work(node)
            ended = await on.control.service(Workflows).run(run.id)
            assert ended.status is RunStatus.FAILED
            assert ended.error.startswith(reason)

    run_simulated(scene())


@pytest.mark.parametrize("error", [OverflowError("int too large"), RecursionError("too deep")])
def test_values_that_nobody_foresaw_fail_their_step_alone(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = RunProgress.decide

    def failing(course: RunProgress, step: PlannedStep, scope: ExpressionScope) -> StepDecision:
        if step.name == "b":
            raise error
        return decide(course, step, scope)

    monkeypatch.setattr(RunProgress, "decide", failing)

    async def scene() -> None:
        async with stage() as on:
            steps = {"a": WORK, "b": {**WORK, "depends_on": ["a"]}, "c": WORK}
            run = await start(on, {"name": "three", "steps": steps})
            await work(await on.node(slots=9))
            assert await states(on, run) == {"a": "completed", "b": "failed", "c": "completed"}
            ended = await on.control.service(Workflows).run(run.id)
            assert f"{type(error).__name__}: {error}" in ended.error

    run_simulated(scene())


def test_a_defect_in_one_run_leaves_the_others_and_the_master_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = RunProgress.ready

    def failing(course: RunProgress, most: int) -> list[PlannedStep]:
        if course.plan.document.name == "broken":
            raise LookupError("nobody foresaw this")
        return ready(course, most)

    async def scene() -> None:
        async with stage() as on:
            monkeypatch.setattr(RunProgress, "ready", failing)
            broken = await start(on, {"name": "broken", "steps": {"a": WORK}})
            sound = await start(on, {"name": "sound", "steps": {"a": WORK}})
            node = await on.node(slots=9)
            await work(node)
            assert (await on.control.service(Workflows).run(sound.id)).status is RunStatus.COMPLETED
            assert (await on.control.service(Workflows).run(broken.id)).status is RunStatus.RUNNING
            monkeypatch.setattr(RunProgress, "ready", ready)
            await on.control.service(Workflows).runner.advance(broken.id)
            await work(node)
            assert (
                await on.control.service(Workflows).run(broken.id)
            ).status is RunStatus.COMPLETED

    run_simulated(scene())


def test_a_full_quota_fails_a_step_whole_and_counts_what_begins_beside_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            patch = QuotaPatch(waiting=10)
            await on.control.projects.set_quotas("default", patch, by="people")
            steps = {
                "large": {**WORK, "for_each": "range(11)"},
                "first": {**WORK, "for_each": "range(6)"},
                "second": {**WORK, "for_each": "range(6)"},
                "third": {**WORK, "for_each": "range(4)"},
            }
            run = await start(on, {"name": "many", "steps": steps})
            await asyncio.sleep(0.1)
            assert await states(on, run) == {
                "large": "failed",
                "first": "running",
                "second": "failed",
                "third": "running",
            }
            quotas = on.control.tasks.quotas
            assert quotas.use("default").waiting == len(await tasks_of(on, run)) == 10
            _, rows = await on.control.service(Workflows).standing(run)
            assert rows[0].reason.startswith("[10]: the project 'default' is at its quota waiting")
            assert rows[2].reason.startswith("[4]: ")
            node = await on.node(slots=10)
            await work(node)
            assert quotas.use("default").waiting == 0
            again = await on.control.service(Workflows).rerun(run.id, ("second",), by="people")
            await work(node)
            assert (await states(on, again))["second"] == "completed"

    run_simulated(scene())


def test_what_was_written_on_the_way_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlfleet.features.workflows.runner.MAX_CHANGE_WEIGHT", 1)

    async def scene() -> None:
        async with stage() as on:
            patch = QuotaPatch(waiting=3)
            await on.control.projects.set_quotas("default", patch, by="people")
            run = await start(on, {"name": "three", "steps": {"a": WORK, "b": WORK, "c": WORK}})
            await asyncio.sleep(0.1)
            assert {*(await states(on, run)).values()} == {"running"}

    run_simulated(scene())


def test_a_check_looks_at_places_code_and_secrets_and_makes_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            steps = {
                "a": WORK,
                "b": {**WORK, "cluster_id": "no"},
                "c": {**WORK, "bundle": "shop:1"},
                "d": {**WORK, "secrets": ["PASSWORD"]},
            }
            raw = msgspec.json.encode({"name": "x", "project_id": "new", "steps": steps})
            _, problems = await on.control.service(Workflows).check(raw)
            assert [each.field for each in problems] == [
                "steps.b.cluster_id",
                "steps.c.bundle",
                "steps.d.secrets[0]",
            ]
            with pytest.raises(InvalidRequest):
                await on.control.service(Workflows).save(raw, by="people")
            fine = msgspec.json.encode({"name": "x", "project_id": "new", "steps": {"a": WORK}})
            assert (await on.control.service(Workflows).check(fine))[1] == []
            assert await on.store.get(PROJECTS, "new") is None
            await on.control.service(Workflows).save(fine, by="people")
            assert await on.store.get(PROJECTS, "new") is not None

    run_simulated(scene())


def test_a_document_is_of_the_callers_project_unless_it_names_another() -> None:
    async def scene() -> None:
        async with stage() as on:
            check = on.control.service(Workflows).check
            # A parameter of a task may have the name as well: that names no project.
            work = {**WORK, "parameters": {"project_id": "other"}}
            plain = {"name": "x", "steps": {"a": work}}
            read, problems = await check(msgspec.json.encode(plain), project_id="shop")
            assert problems == []
            assert read is not None
            assert read.project_id == "shop"
            # Also when it is the default, and however it is spelt.
            named = b'{"name": "x", "steps": {"a": {"task_type": "work"}}, "%s": "default"}'
            for spelt in (b"project_id", b"project\\u005fid"):
                read, (problem,) = await check(named % spelt, project_id="shop")
                assert read is None
                assert (problem.field, problem.value) == ("project_id", "default")
                read, problems = await check(named % spelt, project_id="default")
                assert problems == []

    run_simulated(scene())
