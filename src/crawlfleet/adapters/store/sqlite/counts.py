"""Counts of tasks by state: counted once, then moved by every commit.

To count them means to read an index of all tasks, and dashboards ask many times a second.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from crawlfleet.adapters.store.sql.commit_group import Moves
from crawlfleet.model.task import TaskStatus


class Counts:
    """Moved by the thread that writes, read by others; not known until it begins."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._projects: dict[str, Counter[str]] = {}
        self._all: Counter[str] = Counter()
        self.known = False

    def begin(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Begin with the stored counts: project, state and count."""
        with self._lock:
            self._projects, self._all = {}, Counter()
            for project_id, state, count in rows:
                self._add(project_id, state, count)
            self.known = True

    @contextmanager
    def moved(self, moves: Moves) -> Iterator[None]:
        """Move the counts when the block has ended well. After an error the counts are unknown."""
        try:
            yield
        except BaseException:
            self.known = False
            raise
        with self._lock:
            for (project_id, state), count in moves.items():
                self._add(project_id, state, count)

    def of(self, project_id: str | None) -> dict[TaskStatus, int]:
        """Return the counts of a project or of all; states without a task are left out."""
        with self._lock:
            return _present(self._all if project_id is None else self._projects.get(project_id, {}))

    def by_project(self) -> dict[str, dict[TaskStatus, int]]:
        """Return the counts of each project that has a task."""
        with self._lock:
            found = {project_id: _present(each) for project_id, each in self._projects.items()}
        return {project_id: counts for project_id, counts in found.items() if counts}

    def _add(self, project_id: str, state: str, count: int) -> None:
        self._projects.setdefault(project_id, Counter())[state] += count
        self._all[state] += count


def _present(counts: Mapping[str, int]) -> dict[TaskStatus, int]:
    return {TaskStatus(state): count for state, count in counts.items() if count}
