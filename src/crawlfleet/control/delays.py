"""Tasks that wait for a time, such as for a retry: which one becomes ready next."""

import heapq
from collections.abc import Callable, Iterable

from crawlfleet.model.task import Task


class Delays:
    """Instants by task; a task that is put again waits for the newer one."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        """Called when an instant may have become the next."""
        self._heap: list[tuple[float, str]] = []
        self.until: dict[str, float] = {}
        self._projects: dict[str, str] = {}

    def put(self, task: Task) -> None:
        if self.until.get(task.id) != task.not_before:
            self.until[task.id] = task.not_before
            self._projects[task.id] = task.project_id
            heapq.heappush(self._heap, (task.not_before, task.id))
            self._wake()

    def forget(self, task_id: str) -> None:
        """The task waits no longer. May be called twice."""
        self.until.pop(task_id, None)
        self._projects.pop(task_id, None)

    def count(self, project_id: str) -> int:
        """How many tasks of a project wait."""
        return sum(project == project_id for project in self._projects.values())

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
