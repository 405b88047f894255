"""Queues of tasks that wait for a node, one for each project.

So the backlog of one project costs the others nothing: the tenancy decides which project is next,
and the project's own queue which of its tasks is next.
"""

from collections.abc import Collection, Iterator

from crawlfleet.core.placement.queue import ReadyQueue
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.task import Requirement


class ProjectQueues:
    """Queues of all projects with ready tasks."""

    def __init__(self) -> None:
        self._lines: dict[str, ReadyQueue] = {}
        self._homes: dict[str, ReadyQueue] = {}
        """Queue of each task, in the order in which the tasks came."""

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._homes

    def __iter__(self) -> Iterator[tuple[str, ReadyQueue]]:
        """Iterate over the projects with ready tasks, each with its queue."""
        return iter(self._lines.items())

    def add(
        self,
        task_id: str,
        requirement: Requirement,
        *,
        priority: int,
        created_at: float,
        category: str = "",
        project_id: str = DEFAULT_PROJECT,
        deadline: float | None = None,
    ) -> None:
        """Add a ready task; one that is in the queue already is placed anew (its priority may
        differ)."""
        self._homes.pop(task_id, None)
        line = self._lines.get(project_id)
        if line is None:
            line = self._lines[project_id] = ReadyQueue(project_id)
        line.add(
            task_id,
            requirement,
            priority=priority,
            created_at=created_at,
            category=category,
            deadline=deadline,
        )
        self._homes[task_id] = line

    def discard(self, task_id: str) -> None:
        """Remove a task that was placed or cancelled; ignored when it is not in the queue."""
        line = self._homes.pop(task_id, None)
        if line is None:
            return
        line.discard(task_id)
        if not line:
            del self._lines[line.project_id]

    def projects(self) -> Collection[str]:
        """Return the projects that have ready tasks."""
        return self._lines.keys()

    def project_of(self, task_id: str) -> str:
        """Return the project of a ready task. Raises `KeyError` for another task."""
        return self._homes[task_id].project_id

    def waiting(self, project_id: str) -> int:
        """Return the number of ready tasks of a project."""
        line = self._lines.get(project_id)
        return len(line) if line is not None else 0

    def requirements(self, project_id: str | None = None) -> dict[Requirement, int]:
        """Return the requirements of ready tasks with their numbers; of all projects, or of one."""
        asked: dict[Requirement, int] = {}
        for id, line in self._lines.items():
            if project_id in (None, id):
                for requirement, tasks in line.requirements().items():
                    asked[requirement] = asked.get(requirement, 0) + tasks
        return asked

    def waiting_for(self, requirement: Requirement) -> int:
        """Return the number of ready tasks with this requirement."""
        return sum(line.waiting_for(requirement) for line in self._lines.values())

    def oldest(self, requirement: Requirement) -> float | None:
        """Return the creation time of the oldest task that is first in a project's queue for this
        requirement."""
        made = (line.oldest(requirement) for line in self._lines.values())
        return min((at for at in made if at is not None), default=None)

    def first(self, requirement: Requirement) -> str | None:
        """Return the oldest of the tasks that are first in their project's queue for this
        requirement; `None` if none is ready."""
        found = (
            (line.made_at(first), first)
            for line in self._lines.values()
            if (first := line.first(requirement)) is not None
        )
        return min(found, default=(0.0, None))[1]

    def longest_ready(self) -> float | None:
        """Return the creation time of the task that has been ready for the longest time."""
        for task_id, line in self._homes.items():
            return line.made_at(task_id)
        return None
