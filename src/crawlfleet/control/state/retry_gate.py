"""The breakers of all targets that fail: learned from tasks, wherever they are reported.

Nothing of it is stored: what a task failed with stands in the task, so that whoever loads the tasks
that have not ended finds what fails. A task without a target, or whose target has no trouble, costs
a look into a dictionary. Each project has its own: nobody waits for what another's tasks say.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from crawlfleet.control.state.waiting_lines import HeldTasks
from crawlfleet.core.quality.recording import failed_by_items
from crawlfleet.core.retries import breakers
from crawlfleet.model.breaker import Breaker, BreakerState, Site
from crawlfleet.model.event import Event
from crawlfleet.model.settings.recovery import BreakerSettings
from crawlfleet.model.task import LEASED, ErrorClass, Task, TaskStatus

KIND: Final = "breaker "
MAX_RELEASED: Final = 1000
MAX_TARGETS: Final = 10_000
MAX_TASKS: Final = 1_000
"""Of one target: those whose last failure is known to be counted."""
NOT_OF_TARGET: Final = frozenset({ErrorClass.LOST, ErrorClass.INVALID})
"""Failures that took no time of the target's: the next may be let through at once."""
GIVEN_UP: Final = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})


class _Counted(NamedTuple):
    """The last failure of a task that is counted: its attempt, and which retry it led to."""

    token: int = 0
    retries: int = 0


def reason_for(site: Site) -> str:
    """What tasks for a target wait for, as `HeldTasks` knows it."""
    return KIND + " ".join(site)


class CircuitBreakers:
    """Knows which targets are taken for down, and who waits for them."""

    def __init__(
        self,
        settings: BreakerSettings,
        lines: HeldTasks,
        *,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called when something may be due."""
        self._settings = settings
        self._classes = frozenset(settings.classes)
        self._lines = lines
        self.wake = wake
        self._known: dict[Site, Breaker] = {}
        self.open: dict[Site, Breaker] = {}
        """Those of them for whom tasks wait."""
        self._counted: dict[Site, OrderedDict[str, _Counted]] = {}
        self._closed_at: OrderedDict[Site, float] = OrderedDict()
        """What failed before that counts no more."""
        self._at_work: dict[Site, int] = {}
        """Targets for which the task that was let through has come to a node, and its retries."""
        self._freed: dict[Site, None] = {}
        """Targets whose tasks may go on."""
        self.news: deque[Event] = deque(maxlen=MAX_RELEASED)
        """What is to be told, by whoever leads."""

    def all(self, now: float) -> list[Breaker]:
        """Every target that has failed lately, in order."""
        return [
            each
            for site, each in sorted(self._known.items())
            if site in self.open or now < breakers.idle_from(each, self._settings)
        ]

    def of_target(self, target: str) -> list[Site]:
        """Those of all projects that have failed at a target."""
        return [site for site in self._known if site[1] == target]

    def is_open(self, task: Task) -> bool:
        """Whether the task's target is taken for down."""
        return bool(self.open) and (task.project_id, task.target) in self.open

    def learn(self, tasks: Iterable[Task], now: float) -> None:
        """Learn from all that have not ended, of which nothing may be known. Their failures count
        as they followed each other, however long ago that was: while a target is down its tasks
        wait, and few of them fail."""
        if not self._settings.enabled:
            return
        failed = [task for task in tasks if task.target is not None and self._speaks(task)]
        for task in sorted(failed, key=lambda each: each.updated_at):
            self._note_failure(task, _site_of(task), task.updated_at)
        for site in {_site_of(task) for task in failed} & self.open.keys():
            if breakers.is_stale(self.open[site], self._settings, now):
                self.close(site, now, "", tell=False)

    def note(self, task: Task, now: float) -> None:
        """Learn from a task that has a target."""
        site = _site_of(task)
        known = self._known.get(site)
        if task.status in LEASED:
            if known is not None and known.probe == task.id:
                self._at_work[site] = task.retry_count
            return
        # Items that are not as expected were sent by somebody.
        if task.status is TaskStatus.COMPLETED or failed_by_items(task):
            # News of an old success may come late.
            if known is not None and task.updated_at >= known.since:
                self.close(site, now, f"{task.id} was answered")
            return
        speaks = self._settings.enabled and self._speaks(task)
        in_time = task.updated_at > now - self._settings.window_s
        if speaks and in_time and self._note_failure(task, site, now):
            return
        if known is not None and known.probe == task.id and self._is_over(task, site):
            self._note_silence(known, task, now)

    def _speaks(self, task: Task) -> bool:
        """Whether the last failure of a task speaks against its target. One that was withdrawn
        says nothing: its error is of an attempt before."""
        has_failed = task.status in GIVEN_UP or (
            task.status is TaskStatus.PENDING and task.retry_count > 0
        )
        return has_failed and task.error is not None and task.error.error_class in self._classes

    def _note_failure(self, task: Task, site: Site, at: float) -> bool:
        """Count the last failure of a task, if it is one that was not counted, and counts."""
        if task.updated_at <= self._closed_at.get(site, 0.0) or not self._count(task, site):
            return False
        assert task.error is not None, "it has failed"
        known = self._known.get(site)
        message = task.error.message
        after = breakers.failed(known, site, task.id, message, self._settings, now=at)
        self._put(after)
        was_open = known is not None and known.state is not BreakerState.CLOSED
        if after.state is BreakerState.OPEN and not was_open:
            self.news.append(breakers.opened_event(after, at))
        return True

    def _count(self, task: Task, site: Site) -> bool:
        counted = self._counted.setdefault(site, OrderedDict())
        before = counted.get(task.id, _Counted())
        counted[task.id] = _Counted(task.token, task.retry_count)
        counted.move_to_end(task.id)
        while len(counted) > MAX_TASKS:
            counted.popitem(last=False)
        # One that a node gave back keeps its error, and has failed no more often.
        again = task.status in GIVEN_UP or task.retry_count > before.retries
        return again and task.token > before.token

    def _is_over(self, task: Task, site: Site) -> bool:
        """Whether the task that was let through will not tell any more: it was at work, and is
        not; or nobody will give it to a node."""
        return task.status is not TaskStatus.PENDING or site in self._at_work

    def _note_silence(self, known: Breaker, task: Task, now: float) -> None:
        """The task that was let through is over, and nothing of it speaks against its target."""
        retries = self._at_work.pop(known.site, task.retry_count)
        has_failed = task.status in GIVEN_UP or task.retry_count > retries
        if not has_failed or task.error is None or task.error.error_class in NOT_OF_TARGET:
            self._put(breakers.unanswered(known, now=now))
            return
        if task.error.error_class is ErrorClass.BLOCKED:
            # Who does not want us answers.
            self.close(known.site, now, f"{task.id} was answered")
            return
        after = breakers.ended_otherwise(known, self._settings, now=now)
        if after is None:
            cause = f"{breakers.MOST_UNCLEAR} tasks in a row failed at something else"
            self.close(known.site, now, f"{cause}: {task.error.error_class}")
        else:
            self._put(after)

    def close(self, site: Site, now: float, cause: str, *, tell: bool = True) -> bool:
        """Let everything for a target go on; whether it was taken for down."""
        self._known.pop(site, None)
        self._counted.pop(site, None)
        self._at_work.pop(site, None)
        self._closed_at[site] = now
        self._closed_at.move_to_end(site)
        while len(self._closed_at) > MAX_TARGETS:
            self._closed_at.popitem(last=False)
        if self.open.pop(site, None) is None:
            return False
        self._freed[site] = None
        if tell:
            self.news.append(breakers.closed_event(*site, now, cause))
        self.wake()
        return True

    def hear(self, event: Event) -> None:
        """Another master, or a person, has closed some."""
        if event.kind == "breaker.closed":
            known = self.of_target(event.subject)
            own = [(event.project_id, event.subject)] if event.project_id else known
            for site in own:
                self.close(site, event.at, "", tell=False)

    def holds_back(self, task: Task, now: float) -> str | None:
        """What a task has to wait for that is about to become ready; nothing when it may go."""
        breaker = self.open.get((task.project_id, task.target or ""))
        if breaker is None or breaker.probe == task.id:
            return None
        reason = reason_for(breaker.site)
        if breakers.may_probe(breaker, now) and not self._lines.count(reason):
            self._let_through(breaker, task.id, now)
            return None
        return reason

    def due(self, now: float) -> list[str]:
        """Those that may go now."""
        found: list[str] = []
        for site in [*self._freed]:
            waiting = self._lines.first(reason_for(site), MAX_RELEASED)
            found += waiting
            if not waiting or site in self.open:
                del self._freed[site]
        for site, breaker in [*self.open.items()]:
            waiting = self._lines.first(reason_for(site), 1)
            if not waiting and now >= breakers.idle_from(breaker, self._settings):
                self.close(site, now, "nothing waits for it, and nothing has failed for long")
            elif waiting and breakers.may_probe(breaker, now):
                self._let_through(breaker, waiting[0], now)
                found += waiting
        return found

    def next(self) -> float | None:
        """When something is due."""
        if self._freed:
            return 0.0
        instants = (
            each.retry_at
            if self._lines.count(reason_for(site))
            else breakers.idle_from(each, self._settings)
            for site, each in self.open.items()
        )
        return min(instants, default=None)

    def _let_through(self, breaker: Breaker, task_id: str, now: float) -> None:
        self._at_work.pop(breaker.site, None)
        self._put(breakers.probing(breaker, task_id, now=now))

    def _put(self, breaker: Breaker) -> None:
        self._known[breaker.site] = breaker
        if breaker.state is not BreakerState.CLOSED:
            self.open[breaker.site] = breaker
            self.wake()
        while len(self._known) > MAX_TARGETS:
            oldest = next((id for id in self._known if id not in self.open), None)
            if oldest is None:
                return
            del self._known[oldest]
            self._counted.pop(oldest, None)


def _site_of(task: Task) -> Site:
    assert task.target is not None, "nothing is learned from others"
    return task.project_id, task.target
