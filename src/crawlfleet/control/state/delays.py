"""Tasks that wait for a time, such as for a retry: which one becomes ready next."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from crawlfleet.core.resources import demand_of
from crawlfleet.model.change import NEVER
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Task

NOTHING_ASKED: Final[Mapping[Resources, int]] = MappingProxyType({})


class DelayedTasks:
    """Instants by task; a task that is put again waits for the newer one."""

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
        """Let a task wait for its time, or until another; for ever, until somebody forgets it."""
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
        """The task waits no longer. May be called twice."""
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
        """How many tasks of a project wait."""
        return sum(self.demands(project_id).values())

    def demands(self, project_id: str) -> Mapping[Resources, int]:
        """What the waiting tasks of a project will ask for, and how many for each."""
        return self._by_project.get(project_id, NOTHING_ASKED)

    def next(self) -> float | None:
        """When the next task becomes ready."""
        while self._heap:
            due, task_id = self._heap[0]
            if self.until.get(task_id) == due:
                return due
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: float) -> list[tuple[float, str]]:
        """Those whose time has come; whoever takes them sees to them, or puts them back."""
        due: list[tuple[float, str]] = []
        while (at := self.next()) is not None and at <= now:
            due.append(heapq.heappop(self._heap))
        return due

    def put_back(self, due: Iterable[tuple[float, str]]) -> None:
        for entry in due:
            heapq.heappush(self._heap, entry)
