"""The pending tasks: ready in the queue, delayed until their time, or held back by the retry gate.

The newest ready tasks are kept whole, so that dispatch need not read them from the store.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from crawlfleet.control.state.retry_gate import RetryGate
from crawlfleet.core.placement.plan import requirement_of
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.resources import demand_of
from crawlfleet.model.change import NEVER
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Task, TaskStatus

MAX_TASKS: Final = 30_000
MAX_BYTES: Final = 2_000
"""Maximum size of parameters to cache: a larger task would weigh more than many others."""


class ReadyCache:
    """Ready tasks by id, as long as they are not too many or too large."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def put(self, task: Task) -> None:
        """Keep the newest state of a ready task; an older one is dropped in any case."""
        if len(self._tasks) < MAX_TASKS and len(memoryview(task.parameters)) < MAX_BYTES:
            self._tasks[task.id] = task
        else:
            self.forget(task.id)

    def get(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    def forget(self, task_id: str) -> None:
        """Drop a task. May be called twice."""
        self._tasks.pop(task_id, None)


NOTHING_ASKED: Final[Mapping[Resources, int]] = MappingProxyType({})


class DelayedTasks:
    """The instants at which tasks become ready; putting a task again replaces its instant."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        """Called when an instant may have become the next."""
        self._heap: list[tuple[float, str]] = []
        self.until: dict[str, float] = {}
        self._asked: dict[str, tuple[str, Resources]] = {}
        self._by_project: dict[str, Counter[Resources]] = {}

    def __contains__(self, task_id: str) -> bool:
        return task_id in self.until

    def put(self, task: Task, until: float | None = None) -> None:
        """Delay a task until its own time or another; with `NEVER`, until it is forgotten."""
        until = task.not_before if until is None else until
        if self.until.get(task.id) != until:
            self.until[task.id] = until
            if task.id not in self._asked:
                asked = self._asked[task.id] = task.project_id, demand_of(task)
                self._by_project.setdefault(asked[0], Counter())[asked[1]] += 1
            if until < NEVER:
                heapq.heappush(self._heap, (until, task.id))
                self._wake()

    def forget(self, task_id: str) -> None:
        """Remove a task. May be called twice."""
        self.until.pop(task_id, None)
        asked = self._asked.pop(task_id, None)
        if asked is not None:
            project_id, demand = asked
            of_project = self._by_project[project_id]
            of_project[demand] -= 1
            if not of_project[demand]:
                del of_project[demand]
            if not of_project:
                del self._by_project[project_id]

    def count(self, project_id: str) -> int:
        """Return the number of delayed and held tasks of a project."""
        return sum(self.demands(project_id).values())

    def demands(self, project_id: str) -> Mapping[Resources, int]:
        """Return the number of delayed and held tasks of a project for each demand."""
        return self._by_project.get(project_id, NOTHING_ASKED)

    def next(self) -> float | None:
        """Return when the next task becomes ready, or `None`."""
        while self._heap:
            due, task_id = self._heap[0]
            if self.until.get(task_id) == due:
                return due
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: float) -> list[tuple[float, str]]:
        """Take the due entries; the caller makes their tasks ready, or puts the entries back."""
        due: list[tuple[float, str]] = []
        while (at := self.next()) is not None and at <= now:
            due.append(heapq.heappop(self._heap))
        return due

    def put_back(self, due: Iterable[tuple[float, str]]) -> None:
        for entry in due:
            heapq.heappush(self._heap, entry)


class PendingTasks:
    """Each pending task is in one of the queue, the delays, and the retry gate's held tasks."""

    def __init__(
        self, gate: RetryGate, *, wake_dispatch: Callable[[], None], wake_timers: Callable[[], None]
    ) -> None:
        self.queue = ProjectQueues()
        self.delays = DelayedTasks(wake=wake_timers)
        self._ready = ReadyCache()
        self._gate = gate
        self._wake = wake_dispatch
        gate.begin(wake_timers)

    def put(self, task: Task, now: float) -> None:
        """Put the newest state of a task; one that is not pending is removed."""
        if task.target is not None:
            self._gate.breakers.note(task, now)
        if task.status is not TaskStatus.PENDING:
            self.forget(task.id)
        elif task.not_before > now:
            self._put_delayed(task)
        elif (task.target is not None or task.retry_count) and self._has_to_wait(task, now):
            self._put_held(task)
        else:
            self._put_ready(task)

    def forget(self, task_id: str) -> None:
        """Remove a task. May be called twice."""
        if task_id in self.queue:
            self._ready.forget(task_id)
            self.queue.discard(task_id)
        elif task_id in self.delays:
            self._gate.forget(task_id)
            self.delays.forget(task_id)

    def remembered(self, ids: Sequence[str]) -> dict[str, Task]:
        """Return the tasks of these ids that are ready and in memory."""
        found = ((id, self._ready.get(id)) for id in ids)
        return {id: task for id, task in found if task is not None}

    def hold_back(self, task: Task, now: float) -> bool:
        """Hold a ready task back if its breaker is open now; returns whether it is held."""
        if not self._gate.breakers.is_open(task) or not self._gate.holds_back(task, now):
            return False
        self._put_held(task)
        return True

    def _has_to_wait(self, task: Task, now: float) -> bool:
        # What is in the queue was asked about; if that is different now, dispatch finds out.
        return task.id not in self.queue and self._gate.holds_back(task, now)

    def _put_delayed(self, task: Task) -> None:
        self._gate.forget(task.id)
        self._ready.forget(task.id)
        self.queue.discard(task.id)
        self.delays.put(task)

    def _put_held(self, task: Task) -> None:
        self._ready.forget(task.id)
        self.queue.discard(task.id)
        self.delays.put(task, NEVER)

    def _put_ready(self, task: Task) -> None:
        self._gate.forget(task.id)
        self.delays.forget(task.id)
        self._ready.put(task)
        self.queue.add(
            task.id,
            requirement_of(task),
            priority=task.priority,
            created_at=task.created_at,
            category=task.categories[0] if task.categories else "",
            project_id=task.project_id,
            deadline=task.deadline,
        )
        self._wake()
