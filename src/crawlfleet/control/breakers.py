"""The breakers of all targets that fail: learned from tasks, wherever they are reported.

Nothing of it is stored: what a task failed with stands in the task, so that whoever loads the tasks
that have not ended finds what fails. A task without a target, or whose target has no trouble, costs
a look into a dictionary.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from crawlfleet.control.holds import Holds
from crawlfleet.core import breakers
from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.model.event import Event
from crawlfleet.model.recovery_settings import BreakerSettings
from crawlfleet.model.task import LEASED, ErrorClass, Task, TaskStatus

KIND: Final = "breaker "
MOST_AT_ONCE: Final = 1000
MOST_TARGETS: Final = 10_000
MOST_TASKS: Final = 1_000
"""Of one target: those whose last failure is known to be counted."""
AT_ONCE: Final = frozenset({ErrorClass.LOST, ErrorClass.INVALID})
"""Failures that took no time of the target's: the next may be let through at once."""


class Breakers:
    """Knows which targets are taken for down, and who waits for them."""

    def __init__(
        self, settings: BreakerSettings, holds: Holds, *, wake: Callable[[], None] = lambda: None
    ) -> None:
        """`wake` is called when something may be due."""
        self._settings = settings
        self._classes = frozenset(settings.classes)
        self._holds = holds
        self.wake = wake
        self._known: dict[str, Breaker] = {}
        self.open: dict[str, Breaker] = {}
        """Those of them for whom tasks wait."""
        self._counted: dict[str, OrderedDict[str, int]] = {}
        """By target and task: the attempt whose failure was counted."""
        self._closed_at: OrderedDict[str, float] = OrderedDict()
        """What failed before that counts no more."""
        self._at_work: set[str] = set()
        """Targets for which the task that was let through has come to a node."""
        self._freed: dict[str, None] = {}
        """Targets whose tasks may go on."""
        self.news: deque[Event] = deque(maxlen=MOST_AT_ONCE)
        """What is to be told, by whoever leads."""

    def all(self) -> list[Breaker]:
        """Every target that has failed lately, in order."""
        return [each for _, each in sorted(self._known.items())]

    def note(self, task: Task, now: float) -> None:
        """Learn from a task that has a target."""
        target = task.target
        assert target is not None, "nothing is learned from others"
        known = self._known.get(target)
        if task.status is TaskStatus.COMPLETED:
            # News of an old success may come late.
            if known is not None and task.updated_at >= known.since:
                self.close(target, now, f"{task.id} succeeded")
            return
        if task.status in LEASED:
            if known is not None and known.probe == task.id:
                self._at_work.add(target)
            return
        error = task.error
        if error is None or error.error_class not in self._classes:
            if known is not None and known.probe == task.id and self._is_over(task, target):
                quick = error is None or error.error_class in AT_ONCE
                wait_s = 0.0 if quick else known.pause_s
                self._put(breakers.unanswered(known, wait_s, now=now))
            return
        if self._settings.enabled and self._is_new(task, now):
            after = breakers.failed(known, target, task.id, error.message, self._settings, now=now)
            self._put(after)
            was_open = known is not None and known.state is not BreakerState.CLOSED
            if after.state is BreakerState.OPEN and not was_open:
                self.news.append(breakers.opened_event(after, now))

    def _is_over(self, task: Task, target: str) -> bool:
        """Whether the task that was let through will not tell any more: it was at work, and is
        not; or nobody will give it to a node."""
        return task.status is not TaskStatus.PENDING or target in self._at_work

    def _is_new(self, task: Task, now: float) -> bool:
        """Whether the last failure of a task is one that was not counted, and counts."""
        target = task.target or ""
        if task.updated_at <= max(self._closed_at.get(target, 0.0), now - self._settings.window_s):
            return False
        counted = self._counted.setdefault(target, OrderedDict())
        if task.token <= counted.get(task.id, 0):
            return False
        self._count(counted, task)
        return True

    def _count(self, counted: OrderedDict[str, int], task: Task) -> None:
        counted[task.id] = task.token
        counted.move_to_end(task.id)
        while len(counted) > MOST_TASKS:
            counted.popitem(last=False)

    def close(self, target: str, now: float, cause: str, *, tell: bool = True) -> bool:
        """Let everything for a target go on; whether it was taken for down."""
        self._known.pop(target, None)
        self._counted.pop(target, None)
        self._at_work.discard(target)
        self._closed_at[target] = now
        self._closed_at.move_to_end(target)
        while len(self._closed_at) > MOST_TARGETS:
            self._closed_at.popitem(last=False)
        if self.open.pop(target, None) is None:
            return False
        self._freed[target] = None
        if tell:
            self.news.append(breakers.closed_event(target, now, cause))
        self.wake()
        return True

    def holds_back(self, task: Task, now: float) -> str | None:
        """What a task has to wait for that is about to become ready; nothing when it may go."""
        breaker = self.open.get(task.target or "")
        if breaker is None or breaker.probe == task.id:
            return None
        reason = KIND + breaker.target
        if breakers.may_probe(breaker, now) and not self._holds.count(reason):
            self._let_through(breaker, task.id, now)
            return None
        return reason

    def due(self, now: float) -> list[str]:
        """Those that may go now."""
        found: list[str] = []
        for target in [*self._freed]:
            waiting = self._holds.first(KIND + target, MOST_AT_ONCE)
            found += waiting
            if not waiting or target in self.open:
                del self._freed[target]
        for breaker in [*self.open.values()]:
            if breakers.may_probe(breaker, now):
                for task_id in self._holds.first(KIND + breaker.target, 1):
                    self._let_through(breaker, task_id, now)
                    found.append(task_id)
        return found

    def next(self) -> float | None:
        """When something is due."""
        if self._freed:
            return 0.0
        instants = (
            each.retry_at for each in self.open.values() if self._holds.count(KIND + each.target)
        )
        return min(instants, default=None)

    def _let_through(self, breaker: Breaker, task_id: str, now: float) -> None:
        self._at_work.discard(breaker.target)
        self._put(breakers.probing(breaker, task_id, now=now))

    def _put(self, breaker: Breaker) -> None:
        self._known[breaker.target] = breaker
        if breaker.state is not BreakerState.CLOSED:
            self.open[breaker.target] = breaker
            self.wake()
        while len(self._known) > MOST_TARGETS:
            oldest = next((id for id in self._known if id not in self.open), None)
            if oldest is None:
                return
            del self._known[oldest]
            self._counted.pop(oldest, None)
