"""Changes of tasks and executions that go their usual way, of which a store may write less."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from crawlfleet.model.task import (
    EXECUTION_STEPS,
    TASK_BLANKS,
    TASK_STEPS,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
)
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import Harness, commit_one, is_refused, must, on_store
from crawlfleet.testing.store_suite.samples import (
    FULL_EXECUTION,
    FULL_TASK,
    make_event,
    make_execution,
    make_task,
)

RESULT: Final = Raw(b'{"success":true}')
STATES: Final = (
    (TaskStatus.PROCESSING, ExecutionStatus.RUNNING),
    (TaskStatus.COMPLETED, ExecutionStatus.COMPLETED),
)
Row = TypeVar("Row", Task, Execution)


class UsualTests(Harness):
    @on_store
    async def test_what_goes_its_usual_way_keeps_all_that_it_has(self, store: Store) -> None:
        blank = dict.fromkeys(TASK_BLANKS)
        task = replace(FULL_TASK, **blank, status=TaskStatus.PENDING, version=1)
        attempt = replace(make_execution(), task_id=task.id, allocation=FULL_EXECUTION.allocation)
        given = _moved(task, TaskStatus.ASSIGNED, TASK_STEPS, FULL_TASK)
        life: list[tuple[Task, tuple[Execution, ...]]] = [(task, ()), (given, (attempt,))]
        for status, state in STATES:
            given = _moved(given, status, TASK_STEPS, FULL_TASK)
            attempt = _moved(attempt, state, EXECUTION_STEPS, FULL_EXECUTION)
            life.append((given, (attempt,)))
        for present, executions in life:
            await must(store, Change(tasks=(present,), executions=executions, usual=True))
            assert await store.tasks([task.id]) == [present]
            assert await store.executions(task.id) == [*executions]

    @on_store
    async def test_what_is_not_as_the_usual_way_has_it_is_refused_alone(self, store: Store) -> None:
        await must(store, *(Change(tasks=(make_task(number),)) for number in (1, 2, 3)))
        first, second, third, missing = (
            replace(make_task(number), version=2, status=TaskStatus.ASSIGNED, token=1)
            for number in (1, 2, 3, 4)
        )
        await must(store, Change(tasks=(second,), usual=True))
        changes = [
            Change(tasks=(each,), events=(make_event(subject=each.id),), usual=True)
            for each in (first, replace(second, token=9), third, first, missing)
        ]
        made, late, also_made, twice, nobody = (await store.commit(changes)).refusals
        assert (made, also_made) == (None, None)
        assert is_refused(late, RefusalKind.VERSION, second.id)
        assert is_refused(twice, RefusalKind.VERSION, first.id)
        assert is_refused(nobody, RefusalKind.VERSION, missing.id)
        assert await store.tasks([first.id, second.id, third.id]) == [first, second, third]
        assert [each.subject for each in await store.events(after=0, limit=10)] == [
            first.id,
            third.id,
        ]

    @on_store
    async def test_two_steps_of_the_usual_way_fit_into_one_commit(self, store: Store) -> None:
        task = make_task()
        assigned = replace(task, version=2, status=TaskStatus.ASSIGNED, token=1)
        done = replace(assigned, version=3, status=TaskStatus.COMPLETED, result=RESULT)
        await must(store, *(Change(tasks=(each,), usual=True) for each in (task, assigned, done)))
        assert await store.tasks([task.id]) == [done]

    @on_store
    async def test_a_step_is_refused_before_the_one_that_it_follows(self, store: Store) -> None:
        task, other = make_task(1), make_task(2)
        await must(store, Change(tasks=(task, other)))
        assigned, beside = (
            replace(each, version=2, status=TaskStatus.ASSIGNED, token=1) for each in (task, other)
        )
        done = replace(assigned, version=3, status=TaskStatus.COMPLETED, result=RESULT)
        changes = [
            Change(tasks=(each,), events=(make_event(subject=each.id, kind=str(each.status)),))
            for each in (beside, done, assigned)
        ]
        usual = [replace(each, usual=True) for each in changes]
        first, early, last = (await store.commit(usual)).refusals
        assert (first, last) == (None, None)
        assert is_refused(early, RefusalKind.VERSION, task.id)
        assert await store.tasks([task.id, other.id]) == [assigned, beside]
        assert len(await store.events(after=0, limit=10)) == 2

    @on_store
    async def test_what_changes_as_usual_is_not_made_anew(self, store: Store) -> None:
        again = replace(make_task(), version=5)
        attempt = replace(make_execution(), version=2)
        for change, missing in (
            (Change(tasks=(again,), usual=True), again.id),
            (Change(executions=(attempt,), usual=True), attempt.id),
        ):
            assert is_refused(await commit_one(store, change), RefusalKind.VERSION, missing)
        assert await store.tasks([again.id]) == []
        assert await store.executions(attempt.task_id) == []


def _moved(row: Row, status: Any, steps: Mapping[Any, tuple[str, ...]], full: Row) -> Row:
    """Return the row in its next state; the fields that usually change then are those of the full
    row."""
    taken = {name: getattr(full, name) for name in steps[status]}
    return replace(row, status=status, version=row.version + 1, **taken)
