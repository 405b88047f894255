"""The tasks that wait for a time: which is due next, and whose they are."""

import heapq
from collections.abc import Callable, Iterable

from crawlfleet.model.task import Task

Entry = tuple[float, str]


class Delayed:
    """Tasks by the time that they wait for."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        """Called when a task may have become the next."""
        self._heap: list[Entry] = []
        self._until: dict[str, float] = {}
        self._projects: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._until

    def until(self, task_id: str) -> float | None:
        """What a task waits for; nothing if it does not wait."""
        return self._until.get(task_id)

    def count(self, project_id: str) -> int:
        """How many tasks of a project wait."""
        return sum(project == project_id for project in self._projects.values())

    def put(self, task: Task) -> None:
        """Have a task wait until its `not_before`."""
        if self._until.get(task.id) != task.not_before:
            self._until[task.id] = task.not_before
            self._projects[task.id] = task.project_id
            heapq.heappush(self._heap, (task.not_before, task.id))
            self._wake()

    def discard(self, task_id: str) -> None:
        """Have it wait no longer, if it does."""
        if self._until.pop(task_id, None) is not None:
            del self._projects[task_id]

    def next(self) -> float | None:
        """When the next one is due."""
        while self._heap:
            due, task_id = self._heap[0]
            if self._until.get(task_id) == due:
                return due
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: float) -> list[Entry]:
        """Those that are due: whoever takes them puts them into the queue, or back."""
        due: list[Entry] = []
        while (at := self.next()) is not None and at <= now:
            due.append(heapq.heappop(self._heap))
        return due

    def put_back(self, entries: Iterable[Entry]) -> None:
        """They are due all the same."""
        for entry in entries:
            heapq.heappush(self._heap, entry)
