"""Tests of reading tasks without all of their fields."""

import msgspec
from msgspec.structs import replace

from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import Change, Store, TaskFilter
from crawlfleet.testing.store_suite.harness import Harness, must, on_store
from crawlfleet.testing.store_suite.samples import FULL_TASK, make_task


class GlanceTests(Harness):
    @on_store
    async def test_states_are_those_of_the_tasks_that_there_are(self, store: Store) -> None:
        tasks = [make_task(1), make_task(2, status=TaskStatus.COMPLETED), make_task(3)]
        await must(store, Change(tasks=tuple(tasks)))
        assert await store.task_states(["task-0002", "nope", "task-0001"]) == {
            "task-0001": TaskStatus.PENDING,
            "task-0002": TaskStatus.COMPLETED,
        }
        assert await store.task_states([]) == {}
        assert await store.task_owners(["task-0002", "nope"]) == {"task-0002": "default"}
        assert await store.task_owners([]) == {}

    @on_store
    async def test_states_of_many_tasks_can_be_asked_for_at_once(self, store: Store) -> None:
        await must(store, Change(tasks=tuple(make_task(n) for n in range(3000))))
        assert len(await store.task_states([f"task-{n:04}" for n in range(3000)])) == 3000

    @on_store
    async def test_lists_can_leave_results_out_and_nothing_else(self, store: Store) -> None:
        full = replace(FULL_TASK, id="task-0002", result=msgspec.Raw(b'{"a":1}'))
        await must(store, Change(tasks=(make_task(1), full)))
        for wanted in (TaskFilter(), TaskFilter(status=(full.status, TaskStatus.PENDING))):
            whole = await store.find_tasks(wanted, after=None, limit=9)
            bare = await store.find_tasks(wanted, after=None, limit=9, with_results=False)
            assert [task.result for task in whole] == [full.result, None]
            assert bare == [replace(task, result=None) for task in whole]
