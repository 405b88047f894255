"""The budgets of retries: one for each project, and one for the whole fleet."""

from typing import Final

from crawlfleet.control.state.waiting_lines import HeldTasks
from crawlfleet.core.retries.retry_budget import BudgetRules, RetryBudget, in_words
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import ErrorClass, Task

KIND: Final = "retries "
MAX_RELEASED: Final = 1000


class RetryBudgets:
    """Says which retries may go, and lets those wait that may not."""

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
        """Let go, and not ready yet."""
        self._looked_at = 0.0
        self._tidied_at = 0.0

    def count_first(self, project_id: str, now: float, times: int = 1) -> None:
        """So many first attempts are made."""
        if self._is_on:
            self._fleet.count_first(now, times)
            self._of(project_id).count_first(now, times)
            if now - self._tidied_at > self._rules.window_s:
                self._forget_idle(now)

    def holds_back(self, task: Task, now: float) -> str | None:
        """What a task has to wait for that is about to become ready; nothing when it may go."""
        # Who was lost with its node failed at nothing: its retries are bounded otherwise.
        lost = task.error is not None and task.error.error_class is ErrorClass.LOST
        if not self._is_on or not task.retry_count or lost:
            return None
        if task.id in self._granted:
            self._granted.discard(task.id)
            return None
        reason = KIND + task.project_id
        if not self._lines.count(reason) and self._take(task.project_id, now):
            return None
        return reason

    def due(self, now: float) -> list[str]:
        """Those that may go now; they are let go when they come again."""
        self._looked_at = now
        found: list[str] = []
        waiting = [reason for reason in self._lines if reason.startswith(KIND)]
        # Whoever was first has all that the fleet has left: each time it is another one.
        turn = int(now / self._rules.slot_s) % len(waiting) if waiting else 0
        for reason in waiting[turn:] + waiting[:turn]:
            project_id = reason.removeprefix(KIND)
            for task_id in self._lines.first(reason, MAX_RELEASED):
                if task_id not in self._granted and not self._take(project_id, now):
                    break
                self._granted.add(task_id)
                found.append(task_id)
        return found

    def next(self) -> float | None:
        """When to look again."""
        if any(reason.startswith(KIND) for reason in self._lines):
            return self._looked_at + self._rules.slot_s
        return None

    def forget(self, task_id: str) -> None:
        self._granted.discard(task_id)

    def in_words(self, project_id: str, now: float) -> str:
        """Why a retry of a project waits."""
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
