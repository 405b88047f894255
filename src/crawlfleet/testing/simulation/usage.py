"""Invariants of usage: each end of a task and of an attempt counts once."""

from collections import Counter
from collections.abc import Iterable

from crawlfleet.model.change import Change
from crawlfleet.model.task import LIVE_EXECUTION, TERMINAL, Task, TaskStatus
from crawlfleet.model.usage import UsageHour

NAMES = {
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.TIMEOUT: "failed",
    TaskStatus.CANCELLED: "cancelled",
}


class UsageInvariants:
    """Counts by itself, from the rows of accepted changes."""

    def __init__(self) -> None:
        self._states: dict[str, TaskStatus] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        """Number of events by project and kind."""

    def observe(self, change: Change) -> None:
        """Take one accepted change into account."""
        for task in change.tasks:
            self._see(task)
        for execution in change.executions:
            # One that lost its task before it ended is nobody's any more.
            if execution.status not in LIVE_EXECUTION and change.tasks:
                self._counts[change.tasks[0].project_id, "attempts"] += 1

    def _see(self, task: Task) -> None:
        before = self._states.get(task.id)
        self._states[task.id] = task.status
        if before is None:
            self._counts[task.project_id, "submitted"] += 1
        elif task.status in TERMINAL and before is not task.status:
            self._counts[task.project_id, NAMES[task.status]] += 1

    def check_end(self, rows: Iterable[UsageHour]) -> None:
        """Check that the usage in the store equals the events."""
        stored: Counter[tuple[str, str]] = Counter()
        for row in rows:
            for name in ("submitted", "completed", "failed", "cancelled", "attempts"):
                stored[row.project_id, name] += getattr(row, name)
        for key in {*stored, *self._counts}:
            assert stored[key] == self._counts[key], (
                f"{key[1]} of {key[0]}: {stored[key]} were counted, and {self._counts[key]} were"
            )
