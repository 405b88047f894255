"""Tests of the number of tasks in each state, compared with a count by hand.

A store may keep such counts, and go by what changes say of the states before. So some changes here
say nothing of them, and some what is not so.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawlfleet.core.tasks.lifecycle import TASK_TRANSITIONS
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.event import Event
from crawlfleet.model.task import TERMINAL, Task, TaskStatus
from crawlfleet.ports.store import Change, Store, TaskFilter
from crawlfleet.testing.store_suite.harness import Harness
from crawlfleet.testing.store_suite.samples import NOW, make_event, make_task

WALKS = 6
STEPS = 40
PROJECTS = ("default", "p", "q")
_NEXT = {
    status: [after for (before, _), after in TASK_TRANSITIONS.items() if before is status]
    for status in TaskStatus
}


class _Walk:
    """Draws changes of a few hundred tasks, and tracks the accepted ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._tasks: dict[str, Task] = {}
        self._made = 0

    def batch(self) -> list[Change]:
        """Some changes; most are of different tasks, and some tasks go several steps."""
        changes = [self._change() for _ in range(self.random.choice((1, 1, 3, 20)))]
        if self.random.random() < 0.1:
            changes.insert(self.random.randrange(len(changes)), self._unfit())
        return changes

    def learn(self, present: list[Task]) -> None:
        self._tasks = {task.id: task for task in present}

    def _change(self) -> Change:
        tasks = self.random.choices((1, 2, 30), (20, 2, 1))[0]
        moves = [self._move() for _ in range(tasks)]
        return Change(
            tasks=tuple(task for task, _ in moves),
            events=tuple(event for _, event in moves if event is not None),
            usual=self.random.random() < 0.6,
        )

    def _move(self) -> tuple[Task, Event | None]:
        open_tasks = [task for task in self._tasks.values() if _NEXT[task.status]]
        if not open_tasks or self.random.random() < 0.3:
            self._made += 1
            task = make_task(self._made, project_id=self.random.choice(PROJECTS))
        else:
            before = self.random.choice(open_tasks)
            status = self.random.choice([*_NEXT[before.status], before.status])
            ended = {"completed_at": NOW} if status in TERMINAL else {}
            version = before.version + self.random.choices((1, 2, 0), (30, 1, 1))[0]
            task = replace(before, status=status, version=version, **ended)
        event = self._event(task)
        self._tasks[task.id] = task
        return task, event

    def _event(self, task: Task) -> Event | None:
        if self.random.random() < 0.1:
            return None
        known = self._tasks.get(task.id)
        told: Any = None if known is None else str(known.status)
        if self.random.random() < 0.05:
            told = self.random.choice([*map(str, TaskStatus), "no such state"])
        return make_event(task.id, from_state=told, to_state=str(task.status))

    def _unfit(self) -> Change:
        self._made += 1
        return Change(tasks=(make_task(self._made, priority=2**70),))


class CountTests(Harness):
    def test_tasks_are_counted_as_they_are(self, tmp_path: Path) -> None:
        for seed in range(WALKS):
            folder = tmp_path / str(seed)
            folder.mkdir()
            asyncio.run(self._walk(_Walk(seed), folder))

    async def _walk(self, walk: _Walk, folder: Path) -> None:
        store = self.make_store(folder)
        await store.open()
        try:
            for _ in range(STEPS):
                match walk.random.randrange(12):
                    case 0:
                        await store.close()
                        store = self.make_store(folder)
                        await store.open()
                    case 1:
                        count = walk.random.randrange(30)
                        await store.remove_finished(before=NOW + 1, limit=count)
                    case _:
                        together = walk.random.choice((1, 1, 4))
                        commits = (store.commit(walk.batch()) for _ in range(together))
                        for answer in await asyncio.gather(*commits, return_exceptions=True):
                            if isinstance(answer, BaseException):
                                assert isinstance(answer, InvalidRequest)
                walk.learn(await counted_by_hand(store))
        finally:
            await store.close()


async def counted_by_hand(store: Store) -> list[Task]:
    """All tasks, of which the store must say how many there are."""
    found = await store.find_tasks(TaskFilter(), after=None, limit=100_000)
    by_project: dict[str, Counter[TaskStatus]] = {}
    for task in found:
        by_project.setdefault(task.project_id, Counter())[task.status] += 1
    assert await store.count_tasks() == Counter(task.status for task in found)
    assert await store.count_tasks_by_project() == by_project
    for project_id in PROJECTS:
        assert await store.count_tasks(project_id) == by_project.get(project_id, {})
    return found
