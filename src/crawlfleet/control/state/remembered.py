"""Some of the tasks that are ready, so that most need not be read again to be assigned."""

from typing import Final

from crawlfleet.model.task import Task

MAX_TASKS: Final = 30_000
MAX_BYTES: Final = 2_000
"""Of parameters: of larger tasks there may be few, but each would weigh more than the rest."""


class ReadyCache:
    """Tasks by id, as long as there are not too many and they are not too large."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def put(self, task: Task) -> None:
        """The newest state of a ready task; an older one is forgotten in any case."""
        if len(self._tasks) < MAX_TASKS and len(memoryview(task.parameters)) < MAX_BYTES:
            self._tasks[task.id] = task
        else:
            self.forget(task.id)

    def get(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    def forget(self, task_id: str) -> None:
        """May be called twice."""
        self._tasks.pop(task_id, None)
