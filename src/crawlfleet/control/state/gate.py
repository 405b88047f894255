"""What keeps a task from becoming ready although its time has come: its target is taken for down,
or there were retries enough.

Such a task is out of the queue, so that no plan looks at it again and again; it is put back when
there is a reason to. Every master knows what waits, and the one that leads lets it go.
"""

from collections.abc import Callable

from crawlfleet.control.state.retry_budgets import KIND as RETRIES
from crawlfleet.control.state.retry_budgets import RetryBudgets
from crawlfleet.control.state.retry_gate import KIND as BREAKER
from crawlfleet.control.state.retry_gate import CircuitBreakers, reason_for
from crawlfleet.control.state.waiting_lines import HeldTasks
from crawlfleet.core.retries.breakers import in_words
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.settings.recovery import BreakerSettings
from crawlfleet.model.task import Task


class RetryGate:
    """Asked for each task that becomes ready and has a target, or is a retry."""

    def __init__(self, recovery: RecoverySettings, breaking: BreakerSettings) -> None:
        self.lines = HeldTasks()
        self.breakers = CircuitBreakers(breaking, self.lines)
        self.budgets = RetryBudgets(recovery, self.lines)

    def begin(self, wake: Callable[[], None]) -> None:
        """Nothing is known to wait: what does will be put again."""
        for reason in self.lines:
            for task_id in self.lines.first(reason, self.lines.count(reason)):
                self.forget(task_id)
        self.breakers.wake = wake

    def holds_back(self, task: Task, now: float) -> bool:
        """Whether a task has to wait; then it is known to, until it is forgotten."""
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
        """The task does not wait any more: it is ready, or nobody has to place it."""
        if self.lines:
            self.lines.forget(task_id)
            self.budgets.forget(task_id)

    def due(self, now: float) -> list[str]:
        """Those that may go on now."""
        if not self.lines and not self.breakers.open:
            return []
        return self.breakers.due(now) + self.budgets.due(now)

    def next(self) -> float | None:
        """When something is due."""
        if not self.lines and not self.breakers.open:
            return None
        instants = (self.breakers.next(), self.budgets.next())
        return min((each for each in instants if each is not None), default=None)

    def counts(self) -> dict[str, int]:
        """How many tasks wait for what."""
        found = {"breaker": 0, "retry_budget": 0}
        for reason in self.lines:
            kind = "breaker" if reason.startswith(BREAKER) else "retry_budget"
            found[kind] += self.lines.count(reason)
        return found

    def why(self, task: Task, now: float) -> tuple[str, float | None] | None:
        """Why a task waits, in a sentence, and when that is looked at again, if it is known."""
        reason = self.lines.reason_of(task.id)
        if reason is None:
            return None
        if reason.startswith(BREAKER):
            breaker = self.breakers.open.get((task.project_id, task.target or ""))
            if breaker is None or reason != reason_for(breaker.site):
                return "its target answers again; it goes on at once", None
            return in_words(breaker, now), breaker.retry_at
        return self.budgets.in_words(reason.removeprefix(RETRIES), now), None
