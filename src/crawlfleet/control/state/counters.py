"""Counters of the master's work since it started: fed by whole commits, read for metrics and views.

They are for monitoring only and begin anew with the process; the truth is in the store.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from crawlfleet.model.change import Change
from crawlfleet.model.quality import MeasuredRun, Verdict
from crawlfleet.model.task import LIVE_EXECUTION, TERMINAL, ErrorClass, Execution, TaskStatus

REMEMBERED_S: Final = 3600
DURATIONS_S: Final[Sequence[float]] = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
SIZES: Final[Sequence[float]] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class Happening(StrEnum):
    """Kinds of events that are counted about tasks."""

    SUBMITTED = "submitted"
    ASSIGNED = "assigned"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    PAGE = "page"
    """A page that a crawl has read."""


_ENDS: Final[Mapping[TaskStatus, Happening]] = {
    status: Happening(str(status)) for status in TERMINAL
}


class Distribution:
    """Histogram of a value: how often it fell between two bounds, and its sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Counts of values up to each bound and above the one before it; the last has no bound."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class NodeWork:
    """Sums over the executions that a node has ended since they were last read."""

    __slots__ = ("begun", "ended", "errors", "seconds", "waited_s")

    def __init__(self) -> None:
        self.ended = self.errors = self.begun = 0
        self.seconds = self.waited_s = 0.0

    def count(self, execution: Execution) -> None:
        """Add an execution that has ended."""
        begun = execution.running_at or execution.start_time
        self.ended += 1
        self.errors += execution.error is not None
        self.seconds += max((execution.end_time or begun) - begun, 0.0)
        if execution.running_at is not None:
            self.begun += 1
            self.waited_s += max(execution.running_at - execution.start_time, 0.0)


Happened = Counter[tuple[str, Happening]]
"""Counts by project and happening."""
Failed = Counter[tuple[str, ErrorClass]]
"""Counts of failures by project and class of error."""


class Counters:
    """Counts since `since`, and those of each second of the last hour."""

    def __init__(self, *, since: float) -> None:
        self.since = since
        self.totals: Counter[Happening] = Counter()
        self.failures: Counter[ErrorClass] = Counter()
        """Attempts that did not succeed, whether or not they were tried again."""
        self.verdicts: Counter[Verdict] = Counter()
        """Counts of verdicts on ended tasks with expectations."""
        self.commit_s = Distribution(DURATIONS_S)
        self.commit_changes = Distribution(SIZES)
        self.dispatch_s = Distribution(DURATIONS_S)
        self._work: dict[str, NodeWork] = {}
        self._seconds: deque[tuple[int, Happened, Failed]] = deque()

    def count(self, changes: Iterable[Change], *, at: float) -> None:
        """Count the changes of a commit."""
        happened: Happened = Counter()
        failed: Failed = Counter()
        for change in changes:
            if change.rows:
                self._count_seldom(change)
            project = change.tasks[0].project_id if change.tasks else ""
            for task in change.tasks:
                if task.version == 1:
                    happened[task.project_id, Happening.SUBMITTED] += 1
                elif task.status in _ENDS:
                    happened[task.project_id, _ENDS[task.status]] += 1
            for execution in change.executions:
                if execution.version == 1:
                    happened[project, Happening.ASSIGNED] += 1
                elif execution.status not in LIVE_EXECUTION:
                    if execution.error is not None:
                        failed[project, execution.error.error_class] += 1
                    self._count_work(execution)
        if happened or failed:
            self._add_up(happened, failed)
            self._remember(int(at), happened, failed)

    def _add_up(self, happened: Happened, failed: Failed) -> None:
        for (_, happening), count in happened.items():
            self.totals[happening] += count
        for (_, error_class), count in failed.items():
            self.failures[error_class] += count

    def _count_seldom(self, change: Change) -> None:
        self.verdicts.update(each.verdict for each in change.of(MeasuredRun) if each.version == 1)

    def _count_work(self, execution: Execution) -> None:
        work = self._work.get(execution.node_id)
        if work is None:
            work = self._work[execution.node_id] = NodeWork()
        work.count(execution)

    def take_work(self, node_id: str) -> NodeWork:
        """Return the sums of a node's work since the last call, and begin anew."""
        return self._work.pop(node_id, None) or NodeWork()

    def within(
        self, seconds: float, *, now: float, project_id: str | None = None
    ) -> tuple[Counter[Happening], Counter[ErrorClass]]:
        """Return the happenings and failures of the last so many seconds, an hour at most.

        Counts one project, or all of them.
        """
        happened: Counter[Happening] = Counter()
        failed: Counter[ErrorClass] = Counter()
        for second, some_happened, some_failed in reversed(self._seconds):
            if second <= now - seconds - 1:
                break
            for (project, happening), count in some_happened.items():
                if project_id in (None, project):
                    happened[happening] += count
            for (project, error_class), count in some_failed.items():
                if project_id in (None, project):
                    failed[error_class] += count
        return happened, failed

    def seconds(self, after: float) -> Iterator[tuple[int, Happened, Failed]]:
        """Yield the counts of each second from `after` on, newest first, without empty ones."""
        for each in reversed(self._seconds):
            if each[0] < after:
                return
            yield each

    def note_pages(self, project_id: str, pages: int, *, at: float) -> None:
        """Count pages that crawls of a project have read."""
        self._remember(int(at), Counter({(project_id, Happening.PAGE): pages}), Counter())

    def _remember(self, second: int, happened: Happened, failed: Failed) -> None:
        if self._seconds and self._seconds[-1][0] >= second:
            self._seconds[-1][1].update(happened)
            self._seconds[-1][2].update(failed)
        else:
            self._seconds.append((second, happened, failed))
        while self._seconds[0][0] < second - REMEMBERED_S:
            self._seconds.popleft()
