"""Holds back tasks that are due: because the circuit breaker of their target is open, or because
the retry budget is used up.

Held tasks leave the queue and return when the breaker closes or the budget has room.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from crawlfleet.core.quality.recording import failed_by_items
from crawlfleet.core.retries import breakers
from crawlfleet.core.retries.retry_budget import BudgetRules, RetryBudget, in_words
from crawlfleet.model.breaker import Breaker, BreakerState, Site
from crawlfleet.model.event import Event
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.settings.recovery import BreakerSettings
from crawlfleet.model.task import LEASED, ErrorClass, Task, TaskStatus

RETRIES: Final = "retries "
MAX_RELEASED: Final = 1000
BREAKER: Final = "breaker "
MAX_TARGETS: Final = 10_000
MAX_TASKS: Final = 1_000
"""Maximum number of tasks of one target whose last failure is remembered as counted."""
NOT_OF_TARGET: Final = frozenset({ErrorClass.LOST, ErrorClass.INVALID})
"""Failures that cost the target nothing: the next task may be let through at once."""
GIVEN_UP: Final = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})


class HeldTasks:
    """Held tasks, first come, first served within each reason. A task has one reason at a time."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, None]] = {}
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._reasons

    def __iter__(self) -> Iterator[str]:
        """Iterate over the reasons for which tasks are held."""
        return iter([*self._lines])

    def put(self, reason: str, task_id: str) -> None:
        """Hold a task back; one that is held for this reason already keeps its place."""
        if self._reasons.get(task_id) == reason:
            return
        self.forget(task_id)
        self._reasons[task_id] = reason
        self._lines.setdefault(reason, {})[task_id] = None

    def forget(self, task_id: str) -> None:
        """Stop holding the task back. May be called twice."""
        reason = self._reasons.pop(task_id, None)
        if reason is not None:
            line = self._lines[reason]
            del line[task_id]
            if not line:
                del self._lines[reason]

    def first(self, reason: str, number: int) -> list[str]:
        """Return the first tasks held for a reason; they stay until they are forgotten."""
        return [*islice(self._lines.get(reason, ()), number)]

    def count(self, reason: str) -> int:
        return len(self._lines.get(reason, ()))

    def reason_of(self, task_id: str) -> str | None:
        """Return the reason that holds a task back, or `None`."""
        return self._reasons.get(task_id)


class RetryBudgets:
    """Retry budgets of the fleet and its projects: lets retries go, or holds them back."""

    def __init__(self, settings: RecoverySettings, lines: HeldTasks) -> None:
        self._is_on = settings.retry_budget
        share, window_s = settings.retry_share, settings.retry_window_s
        self._rules = BudgetRules(share=share, floor=settings.retry_floor, window_s=window_s)
        self._fleet_rules = BudgetRules(
            share=share, floor=settings.fleet_retry_floor, window_s=window_s
        )
        self._fleet = RetryBudget(self._fleet_rules)
        self._projects: dict[str, RetryBudget] = {}
        self._lines = lines
        self._granted: set[str] = set()
        """Retries that were let go, and are not ready yet."""
        self._looked_at = 0.0
        self._tidied_at = 0.0

    def count_first(self, project_id: str, now: float, times: int = 1) -> None:
        """Count first attempts of a project, which make room for retries."""
        if self._is_on:
            self._fleet.count_first(now, times)
            self._of(project_id).count_first(now, times)
            if now - self._tidied_at > self._rules.window_s:
                self._forget_idle(now)

    def holds_back(self, task: Task, now: float) -> str | None:
        """Return the reason that holds a retry back; `None` if it may go, which uses up budget."""
        # Who was lost with its node failed at nothing: its retries are bounded otherwise.
        lost = task.error is not None and task.error.error_class is ErrorClass.LOST
        if not self._is_on or not task.retry_count or lost:
            return None
        if task.id in self._granted:
            self._granted.discard(task.id)
            return None
        reason = RETRIES + task.project_id
        if not self._lines.count(reason) and self._take(task.project_id, now):
            return None
        return reason

    def due(self, now: float) -> list[str]:
        """Let held retries go as the budgets allow; returns their ids, to be put again."""
        self._looked_at = now
        found: list[str] = []
        waiting = [reason for reason in self._lines if reason.startswith(RETRIES)]
        # Whoever was first has all that the fleet has left: each time it is another one.
        turn = int(now / self._rules.slot_s) % len(waiting) if waiting else 0
        for reason in waiting[turn:] + waiting[:turn]:
            project_id = reason.removeprefix(RETRIES)
            for task_id in self._lines.first(reason, MAX_RELEASED):
                if task_id not in self._granted and not self._take(project_id, now):
                    break
                self._granted.add(task_id)
                found.append(task_id)
        return found

    def next(self) -> float | None:
        """Return when to look again, or `None` if no retry is held."""
        if any(reason.startswith(RETRIES) for reason in self._lines):
            return self._looked_at + self._rules.slot_s
        return None

    def forget(self, task_id: str) -> None:
        self._granted.discard(task_id)

    def in_words(self, project_id: str, now: float) -> str:
        """Return a sentence that says why a retry of a project is held."""
        own = self._of(project_id)
        if own.left(now) and not self._fleet.left(now):
            return in_words("the whole fleet", self._fleet, self._fleet_rules)
        return in_words(f"the project {project_id!r}", own, self._rules)

    def _take(self, project_id: str, now: float) -> bool:
        own = self._of(project_id)
        if not own.left(now) or not self._fleet.left(now):
            return False
        own.count_retry(now)
        self._fleet.count_retry(now)
        return True

    def _of(self, project_id: str) -> RetryBudget:
        found = self._projects.get(project_id)
        if found is None:
            found = self._projects[project_id] = RetryBudget(self._rules)
        return found

    def _forget_idle(self, now: float) -> None:
        self._tidied_at = now
        for project_id in [id for id, each in self._projects.items() if each.is_idle(now)]:
            del self._projects[project_id]


class _Counted(NamedTuple):
    """The last counted failure of a task: its attempt, and which retry it led to."""

    token: int = 0
    retries: int = 0


def reason_for(site: Site) -> str:
    """Return the reason of `HeldTasks` for tasks of a site whose breaker is open."""
    return BREAKER + " ".join(site)


class CircuitBreakers:
    """The circuit breakers of all targets, and the tasks that they hold back."""

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
        """Breakers that are not closed, by site: the tasks of these sites are held."""
        self._counted: dict[Site, OrderedDict[str, _Counted]] = {}
        self._closed_at: OrderedDict[Site, float] = OrderedDict()
        """Time at which a site's breaker was closed: earlier failures do not count any more."""
        self._at_work: dict[Site, int] = {}
        """Sites whose probing task has come to a node, with its number of retries."""
        self._freed: dict[Site, None] = {}
        """Sites whose held tasks may go on."""
        self.news: deque[Event] = deque(maxlen=MAX_RELEASED)
        """Events that the leading master has to commit."""

    def all(self, now: float) -> list[Breaker]:
        """Return the breaker of every target that has failed lately, in order."""
        return [
            each
            for site, each in sorted(self._known.items())
            if site in self.open or now < breakers.idle_from(each, self._settings)
        ]

    def of_target(self, target: str) -> list[Site]:
        """Return the sites of a target: one for each project whose tasks have failed at it."""
        return [site for site in self._known if site[1] == target]

    def is_open(self, task: Task) -> bool:
        """Return whether the breaker of the task's target is not closed."""
        return bool(self.open) and (task.project_id, task.target) in self.open

    def learn(self, tasks: Iterable[Task], now: float) -> None:
        """Count the failures of these unfinished tasks, after a start or a load. They count as they
        followed each other, however long ago that was: while a target is down its tasks wait, and
        few of them fail.
        """
        if not self._settings.enabled:
            return
        failed = [task for task in tasks if task.target is not None and self._speaks(task)]
        for task in sorted(failed, key=lambda each: each.updated_at):
            self._note_failure(task, _site_of(task), task.updated_at)
        for site in {_site_of(task) for task in failed} & self.open.keys():
            if breakers.is_stale(self.open[site], self._settings, now):
                self.close(site, now, "", tell=False)

    def note(self, task: Task, now: float) -> None:
        """Count the outcome of a task that has a target."""
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
        """Return whether the last failure of a task counts against its target. A withdrawn task
        does not count: its error is that of an earlier attempt.
        """
        has_failed = task.status in GIVEN_UP or (
            task.status is TaskStatus.PENDING and task.retry_count > 0
        )
        return has_failed and task.error is not None and task.error.error_class in self._classes

    def _note_failure(self, task: Task, site: Site, at: float) -> bool:
        """Count the last failure of a task; returns `False` if it is not new, or too old."""
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
        """Return whether no outcome of the probing task is to be expected: it was on a node and is
        not any more, or it will not come to one.
        """
        return task.status is not TaskStatus.PENDING or site in self._at_work

    def _note_silence(self, known: Breaker, task: Task, now: float) -> None:
        """Handle a probing task that is over without a failure that counts against its target."""
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
            cause = f"{breakers.MAX_UNCLEAR} tasks in a row failed at something else"
            self.close(known.site, now, f"{cause}: {task.error.error_class}")
        else:
            self._put(after)

    def close(self, site: Site, now: float, cause: str, *, tell: bool = True) -> bool:
        """Let all tasks for a target go on; returns whether its breaker was open."""
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
        """Close breakers that another master, or a person, has closed."""
        if event.kind == "breaker.closed":
            known = self.of_target(event.subject)
            own = [(event.project_id, event.subject)] if event.project_id else known
            for site in own:
                self.close(site, event.at, "", tell=False)

    def holds_back(self, task: Task, now: float) -> str | None:
        """Return the reason that holds a task back; `None` if it may go. The first task after the
        pause is let through as a probe.
        """
        breaker = self.open.get((task.project_id, task.target or ""))
        if breaker is None or breaker.probe == task.id:
            return None
        reason = reason_for(breaker.site)
        if breakers.may_probe(breaker, now) and not self._lines.count(reason):
            self._let_through(breaker, task.id, now)
            return None
        return reason

    def due(self, now: float) -> list[str]:
        """Return held tasks that may go: of closed breakers, and a probe of each due one."""
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
        """Return when `due` has something to return, or `None`."""
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


class RetryGate:
    """Decides on each task that becomes ready, if it has a target or is a retry."""

    def __init__(self, recovery: RecoverySettings, breaking: BreakerSettings) -> None:
        self.lines = HeldTasks()
        self.breakers = CircuitBreakers(breaking, self.lines)
        self.budgets = RetryBudgets(recovery, self.lines)

    def begin(self, wake: Callable[[], None]) -> None:
        """Forget all held tasks, because the copy is loaded anew: they are put again."""
        for reason in self.lines:
            for task_id in self.lines.first(reason, self.lines.count(reason)):
                self.forget(task_id)
        self.breakers.wake = wake

    def holds_back(self, task: Task, now: float) -> bool:
        """Return whether a task has to wait; such a task is held until it is forgotten."""
        if self.breakers.is_open(task):
            # One that is let through to see is asked for nothing else.
            reason = self.breakers.holds_back(task, now)
        else:
            reason = self.budgets.holds_back(task, now)
        if reason is None:
            return False
        self.lines.put(reason, task.id)
        if self.lines.count(reason) == 1:
            self.breakers.wake()
        return True

    def forget(self, task_id: str) -> None:
        """Stop holding a task: it is ready, or need not be placed."""
        if self.lines:
            self.lines.forget(task_id)
            self.budgets.forget(task_id)

    def due(self, now: float) -> list[str]:
        """Return the ids of held tasks that may go now."""
        if not self.lines and not self.breakers.open:
            return []
        return self.breakers.due(now) + self.budgets.due(now)

    def next(self) -> float | None:
        """Return when `due` has something to return, or `None`."""
        if not self.lines and not self.breakers.open:
            return None
        instants = (self.breakers.next(), self.budgets.next())
        return min((each for each in instants if each is not None), default=None)

    def counts(self) -> dict[str, int]:
        """Return the number of held tasks by kind of reason."""
        found = {"breaker": 0, "retry_budget": 0}
        for reason in self.lines:
            kind = "breaker" if reason.startswith(BREAKER) else "retry_budget"
            found[kind] += self.lines.count(reason)
        return found

    def why(self, task: Task, now: float) -> tuple[str, float | None] | None:
        """Return why a task is held, and when that may change; `None` if it is not held."""
        reason = self.lines.reason_of(task.id)
        if reason is None:
            return None
        if reason.startswith(BREAKER):
            breaker = self.breakers.open.get((task.project_id, task.target or ""))
            if breaker is None or reason != reason_for(breaker.site):
                return "its target answers again; it goes on at once", None
            return breakers.in_words(breaker, now), breaker.retry_at
        return self.budgets.in_words(reason.removeprefix(RETRIES), now), None
