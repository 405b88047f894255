"""Invariants of tasks with expectations: each end has one measurement."""

import random
from typing import Final

from crawlfleet.core.quality.recording import failed_by_items
from crawlfleet.model.change import Change
from crawlfleet.model.quality import CountRange, Expectations, MeasuredRun, OnDrift
from crawlfleet.model.task import Task, TaskStatus

SERIES: Final = ("one", "two", None)


def expected(chance: random.Random) -> Expectations:
    """Return random expectations of a task that finds one item, or one for each of its shards."""
    return Expectations(
        items=CountRange(max=chance.choice((0, 9))),
        series=chance.choice(SERIES),
        on_drift=chance.choice([*OnDrift]),
    )


class QualityInvariants:
    """Watches that no task ends without its verdict, and that no verdict comes without an end."""

    def __init__(self) -> None:
        self._ends: set[tuple[str, float | None]] = set()

    def observe(self, change: Change) -> None:
        """Take one accepted change into account; raises `AssertionError`."""
        ended = [task.id for task in change.tasks if self._ends_judged(task)]
        judged = [run.task_id for run in change.of(MeasuredRun) if run.version == 1]
        assert sorted(ended) == sorted(judged), f"{ended} ended, and of {judged} a verdict came"

    def _ends_judged(self, task: Task) -> bool:
        """Return whether this change ends a task with a result to measure."""
        if task.expectations is None:
            return False
        end = task.id, task.completed_at
        is_end = task.status is TaskStatus.COMPLETED or failed_by_items(task)
        if end in self._ends or not is_end:
            return False
        self._ends.add(end)
        return True
