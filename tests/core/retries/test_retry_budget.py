"""Retries are never more than the budget, and all of them go in the end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.retries.retry_budget import SLOTS, BudgetRules, RetryBudget, in_words

RULES = st.builds(
    BudgetRules,
    share=st.sampled_from((0.0, 0.1, 0.5, 2.0)),
    floor=st.integers(1, 5),
    window_s=st.sampled_from((1.0, 60.0)),
)
STEPS = st.lists(st.tuples(st.floats(0.0, 10.0), st.booleans()), max_size=200)


@settings(deadline=None)
@given(rules=RULES, steps=STEPS)
def test_in_every_window_retries_stay_within_the_budget(
    rules: BudgetRules, steps: list[tuple[float, bool]]
) -> None:
    """By a plain account of all that happened, kept beside it."""
    budget, now = RetryBudget(rules), 1_000_000.0
    history: list[tuple[int, bool]] = []
    for wait_s, is_first in steps:
        now += wait_s * rules.window_s / 10
        slot = int(now // rules.slot_s)
        recent = [each for each in history if each[0] > slot - SLOTS]
        firsts = sum(first for _, first in recent)
        retries = len(recent) - firsts
        assert (budget.left(now) > 0) is (retries < rules.floor + int(rules.share * firsts))
        if is_first:
            budget.count_first(now)
            history.append((slot, True))
        elif budget.left(now):
            budget.count_retry(now)
            history.append((slot, False))
        assert budget.retries >= 0
        assert budget.firsts >= 0


@settings(deadline=None)
@given(rules=RULES, waiting=st.integers(1, 50))
def test_whatever_waits_goes_in_the_end_without_any_first_attempt(
    rules: BudgetRules, waiting: int
) -> None:
    budget, now = RetryBudget(rules), 1_000_000.0
    begun = now
    while waiting:
        for _ in range(min(budget.left(now), waiting)):
            budget.count_retry(now)
            waiting -= 1
        now += rules.slot_s
    assert now - begun <= (50 / rules.floor + 1) * (rules.window_s + rules.slot_s)


def test_what_has_left_the_window_counts_no_more() -> None:
    rules = BudgetRules(share=0.5, floor=1, window_s=60.0)
    budget = RetryBudget(rules)
    for _ in range(4):
        budget.count_first(0.0)
    assert budget.left(0.0) == 3
    for _ in range(3):
        budget.count_retry(0.0)
    assert budget.left(30.0) == 0
    assert "3 retries in the last 60 s, of 1 and 50% of 4 first" in in_words("x", budget, rules)
    assert budget.left(60.0) == 1
    assert budget.is_idle(60.0)


def test_a_clock_that_is_set_back_gives_nothing_away() -> None:
    budget = RetryBudget(BudgetRules(share=0.0, floor=2, window_s=60.0))
    budget.count_retry(1000.0)
    budget.count_retry(900.0)
    assert budget.left(900.0) == 0
    assert budget.left(1000.0) == 0
