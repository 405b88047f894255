"""Tasks that wait for a time, such as for a retry: which one becomes ready next."""

import heapq
from collections.abc import Callable, Iterable


class Delays:
    """Instants by task; a task that is put again waits for the newer one."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        """Called when an instant may have become the next."""
        self._heap: list[tuple[float, str]] = []
        self.until: dict[str, float] = {}

    def put(self, task_id: str, at: float) -> None:
        if self.until.get(task_id) != at:
            self.until[task_id] = at
            heapq.heappush(self._heap, (at, task_id))
            self._wake()

    def forget(self, task_id: str) -> None:
        """The task waits no longer. May be called twice."""
        self.until.pop(task_id, None)

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
