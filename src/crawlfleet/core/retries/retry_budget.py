"""Retry budget: limits retries in proportion to first attempts, so that an outage does not become a
storm.

When a site, a proxy or a database is away, every attempt fails, and each failure asks for another
attempt. Within any window retries may be a share of the first attempts in it, plus a few that are
always free. Retries beyond that wait for their turn; none is dropped.
"""

from collections import deque
from typing import Final

import msgspec

SLOTS: Final = 20
"""Number of slots of a window; attempts leave the window slot by slot."""


class BudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a retry budget."""

    share: float
    """Retries allowed per first attempt in the window."""
    floor: int
    """Retries that are always allowed in a window."""
    window_s: float

    @property
    def slot_s(self) -> float:
        return self.window_s / SLOTS


class _Slot:
    __slots__ = ("firsts", "number", "retries")

    def __init__(self, number: int) -> None:
        self.number = number
        self.firsts = 0
        self.retries = 0


class RetryBudget:
    """First attempts and retries within the window, and the retries that are left."""

    __slots__ = ("_rules", "_slot_s", "_slots", "firsts", "retries")

    def __init__(self, rules: BudgetRules) -> None:
        self._rules = rules
        self._slot_s = rules.slot_s
        self._slots: deque[_Slot] = deque()
        self.firsts = 0
        self.retries = 0

    def count_first(self, now: float, times: int = 1) -> None:
        """Count `times` first attempts."""
        self._slot(now).firsts += times
        self.firsts += times

    def count_retry(self, now: float) -> None:
        """Count a retry."""
        self._slot(now).retries += 1
        self.retries += 1

    def left(self, now: float) -> int:
        """Return how many retries may start now; 0 when the budget is used up."""
        self._pass(now)
        return max(self.limit() - self.retries, 0)

    def limit(self) -> int:
        """Return the limit of retries in the window as it was at the last call of a method with
        `now`."""
        return self._rules.floor + int(self._rules.share * self.firsts)

    def is_idle(self, now: float) -> bool:
        """Return whether the window has no attempts."""
        self._pass(now)
        return not self._slots

    def _slot(self, now: float) -> _Slot:
        number = now // self._slot_s
        slots = self._slots
        # A clock that was set back counts for the newest part: nothing is counted twice.
        if not slots or slots[-1].number < number:
            self._pass(now)
            slots.append(_Slot(int(number)))
        return slots[-1]

    def _pass(self, now: float) -> None:
        """Drop the slots that are older than the window."""
        oldest = now // self._slot_s - SLOTS
        while self._slots and self._slots[0].number <= oldest:
            slot = self._slots.popleft()
            self.firsts -= slot.firsts
            self.retries -= slot.retries


def in_words(owner: str, budget: RetryBudget, rules: BudgetRules) -> str:
    """Return the reason why the budget holds a retry back, as a sentence."""
    return (
        f"waits since {owner} has retried enough: {budget.retries} retries in the last "
        f"{rules.window_s:g} s, of {rules.floor} and {rules.share:.0%} of {budget.firsts} first "
        "attempts; it costs the task nothing"
    )
