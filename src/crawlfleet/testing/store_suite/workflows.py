"""Tests of workflows, their versions, and runs, whose steps are committed with their tasks."""

from msgspec.structs import replace

from crawlfleet.features.workflows.model import RunStatus, StepStatus, version_row_id
from crawlfleet.features.workflows.table import (
    RUNS,
    WORKFLOW_VERSIONS,
    WORKFLOWS,
    RunFilter,
    ended_runs,
    find_runs,
    find_workflows,
    live_runs,
    runs_among,
    steps_of,
    versions_of,
)
from crawlfleet.model.task import EMPTY_OBJECT, TaskStatus
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import (
    NOW,
    make_task,
)
from crawlfleet.testing.store_suite.workflow_samples import (
    FULL_RUN,
    FULL_RUN_STEP,
    FULL_VERSION,
    FULL_WORKFLOW,
    make_run,
    make_run_step,
    make_version,
    make_workflow,
)

EVERY = RunFilter()


class WorkflowTests(Harness):
    @on_store
    async def test_workflows_and_runs_come_back_as_they_were(self, store: Store) -> None:
        plain = make_run(2)
        await must(
            store,
            Change(
                rows=(FULL_WORKFLOW, FULL_VERSION, FULL_RUN, plain, FULL_RUN_STEP),
            ),
        )
        assert await store.get(WORKFLOWS, FULL_WORKFLOW.id) == FULL_WORKFLOW
        assert await store.get(WORKFLOWS, "flow-none") is None
        assert (
            await store.get(
                WORKFLOW_VERSIONS, version_row_id(FULL_WORKFLOW.id, FULL_VERSION.number)
            )
            == FULL_VERSION
        )
        assert await store.get(WORKFLOW_VERSIONS, version_row_id(FULL_WORKFLOW.id, 1)) is None
        assert await store.get(RUNS, FULL_RUN.id) == FULL_RUN
        assert await store.get(RUNS, "run-none") is None
        assert dict(
            await store.values(
                runs_among([plain.id, "run-none", FULL_RUN.id, plain.id]), "id", "status"
            )
        ) == {
            plain.id: plain.status,
            FULL_RUN.id: FULL_RUN.status,
        }
        assert dict(await store.values(runs_among([]), "id", "status")) == {}
        assert await store.find(steps_of(FULL_RUN.id)) == [FULL_RUN_STEP]
        assert await store.find(steps_of(plain.id)) == []
        changed = replace(plain, status=RunStatus.FAILED, ended_at=NOW, counts={"a": 1}, version=2)
        await must(store, Change(rows=(changed,)))
        assert await store.get(RUNS, plain.id) == changed

    @on_store
    async def test_workflows_are_found_by_project_and_name(self, store: Store) -> None:
        shop = make_workflow(2, project_id="shop", name="nightly")
        others = [make_workflow(1), make_workflow(3, project_id="shop")]
        await must(store, Change(rows=(shop, *others)))

        async def found(**wanted: str) -> list[str]:
            given = {"project_id": None, "name": None, "after": None, **wanted}
            return [each.id for each in await store.find(find_workflows(limit=2, **given))]

        assert await found() == ["flow-0001", "flow-0002"]
        assert await found(after="flow-0002") == ["flow-0003"]
        assert await found(project_id="shop") == ["flow-0002", "flow-0003"]
        assert await found(project_id="shop", after="flow-0002") == ["flow-0003"]
        assert await found(project_id="shop", name="nightly") == ["flow-0002"]
        assert await found(project_id="default", name="nightly") == []

    @on_store
    async def test_versions_come_newest_first_and_without_their_documents(
        self, store: Store
    ) -> None:
        made = [make_version(number) for number in (1, 2, 10)]
        await must(store, Change(rows=(*made, make_version(1, "flow-0002"))))
        found = await store.find(versions_of("flow-0001", before=None, limit=2))
        assert [each.number for each in found] == [10, 2]
        assert found[0] == replace(made[2], document=EMPTY_OBJECT)
        below = await store.find(versions_of("flow-0001", before=10, limit=5))
        assert [each.number for each in below] == [2, 1]

    @on_store
    async def test_runs_are_listed_newest_first_by_what_is_asked(self, store: Store) -> None:
        await must(
            store,
            Change(
                rows=(
                    make_run(1, project_id="shop", status=RunStatus.FAILED, ended_at=NOW),
                    make_run(2, project_id="shop", workflow_id="flow-0002"),
                    make_run(3),
                    make_run(4, status=RunStatus.CANCELLING),
                )
            ),
        )

        async def found(filter: RunFilter, after: str | None = None) -> list[int]:
            runs = await store.find(find_runs(filter, after=after, limit=3))
            return [int(run.id[-1]) for run in runs]

        assert await found(EVERY) == [4, 3, 2]
        assert await found(EVERY, after="run-0002") == [1]
        assert await found(RunFilter(project_id="shop")) == [2, 1]
        assert await found(RunFilter(workflow_id="flow-0001")) == [4, 3, 1]
        assert await found(RunFilter(status=RunStatus.FAILED, project_id="shop")) == [1]
        assert await found(RunFilter(workflow_id="flow-0001"), after="run-0004") == [3, 1]
        alive = await store.find(live_runs(after=None, limit=2))
        assert [run.id for run in alive] == ["run-0002", "run-0003"]
        more = await store.find(live_runs(after="run-0003", limit=2))
        assert [run.id for run in more] == ["run-0004"]

    @on_store
    async def test_a_step_begins_once_with_its_tasks(self, store: Store) -> None:
        epoch = await take_lead(store, "one")
        begin = Change(rows=(make_run_step(count=1),), tasks=(make_task(),), epoch=epoch)
        await must(store, Change(rows=(make_run(),)), begin)
        refused = await commit_one(store, begin)
        assert refused is not None
        later = await take_lead(store, "another")
        assert is_refused(await commit_one(store, begin), RefusalKind.EPOCH, str(later))
        # Neither the step twice with another task, nor the task twice for another step.
        again = replace(begin, tasks=(make_task(2),), epoch=later)
        assert is_refused(await commit_one(store, again), RefusalKind.VERSION, make_run_step().id)
        other = replace(begin, rows=(make_run_step("other"),), epoch=later)
        assert is_refused(await commit_one(store, other), RefusalKind.VERSION, "task-0001")
        assert [step.step for step in await store.find(steps_of("run-0001"))] == ["fetch"]
        assert not await store.tasks(["task-0002"])

    @on_store
    async def test_the_steps_of_a_run_are_no_other_runs(self, store: Store) -> None:
        steps = [
            make_run_step(name, run_id=run_id)
            for run_id in ("run-1", "run-10", "run-2")
            for name in ("b", "a")
        ]
        await must(store, Change(rows=(*steps,)))
        assert await store.find(steps_of("run-1")) == [steps[1], steps[0]]

    @on_store
    async def test_the_tasks_of_a_run_stay_for_as_long_as_it_has_not_ended(
        self, store: Store
    ) -> None:
        ended = {"status": TaskStatus.COMPLETED, "completed_at": NOW}
        tasks = (
            make_task(1, workflow_id="run-0001", **ended),
            make_task(2, workflow_id="run-0002", **ended),
            make_task(3, workflow_id="mine", **ended),
        )
        over = make_run(2, status=RunStatus.COMPLETED, ended_at=NOW)
        await must(store, Change(rows=(make_run(1), over), tasks=tasks))
        assert await store.remove_finished(before=NOW + 1, limit=9) == 2
        assert [each.id for each in await store.tasks([t.id for t in tasks])] == ["task-0001"]
        await must(
            store,
            Change(rows=(make_run(1, status=RunStatus.FAILED, ended_at=NOW, version=2),)),
        )
        assert await store.remove_finished(before=NOW + 1, limit=9) == 1

    @on_store
    async def test_old_runs_go_with_their_steps_first_those_that_ended_first(
        self, store: Store
    ) -> None:
        runs = [
            make_run(1, status=RunStatus.COMPLETED, ended_at=NOW + 2),
            make_run(2, status=RunStatus.FAILED, ended_at=NOW + 1),
            make_run(3),
            make_run(4, status=RunStatus.COMPLETED, ended_at=NOW + 9),
        ]
        steps = [make_run_step("a", run_id=run.id) for run in runs]
        await must(store, Change(rows=(*runs, *steps)))
        assert await store.remove(ended_runs(before=NOW + 5, limit=1)) == 1
        assert await store.get(RUNS, "run-0002") is None
        assert await store.find(steps_of("run-0002")) == []
        assert await store.remove(ended_runs(before=NOW + 5, limit=9)) == 1
        left = await store.find(find_runs(EVERY, after=None, limit=9))
        assert [run.id for run in left] == ["run-0004", "run-0003"]
        assert len(await store.find(steps_of("run-0003"))) == 1
        # What is gone may come anew.
        await must(store, Change(rows=(make_run(2), steps[1])))
        assert (await store.find(steps_of("run-0002")))[0].status is StepStatus.RUNNING
