"""When a site is taken for down, and when it is tried again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.retries import breakers
from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.model.settings import BreakerSettings

RULES = BreakerSettings(failures=4, tasks=2, window_s=100.0, pause_s=10.0, max_pause_s=40.0)
SITE = ("shop", "a.example")
OPEN, PROBING, CLOSED = BreakerState.OPEN, BreakerState.PROBING, BreakerState.CLOSED


def after(*tasks: str, at: float = 0.0, every_s: float = 1.0) -> Breaker:
    breaker: Breaker | None = None
    for number, task in enumerate(tasks):
        now = at + number * every_s
        breaker = breakers.failed(breaker, SITE, task, "refused", RULES, now=now)
    assert breaker is not None
    return breaker


@pytest.mark.parametrize(
    ("tasks", "state"),
    [
        (("t1",), CLOSED),
        (("t1", "t2", "t1"), CLOSED),
        (("t1", "t2", "t1", "t2"), OPEN),
        # One task that fails and fails says nothing of its site.
        (("t1",) * 20, CLOSED),
        ((*(("t1",) * 20), "t2"), OPEN),
    ],
)
def test_failures_in_a_row_of_several_tasks_open_it(
    tasks: tuple[str, ...], state: BreakerState
) -> None:
    assert after(*tasks).state is state


def test_failures_that_are_far_apart_do_not_count_together() -> None:
    assert after("t1", "t2", "t3", "t4", "t5", every_s=101.0).failures == 1
    assert after("t1", "t2", "t3", "t4", every_s=99.0).state is OPEN


def test_one_task_is_let_through_after_a_pause_that_doubles_each_time_it_fails() -> None:
    breaker = after("t1", "t2", "t3", "t4")
    pauses, now = [], breaker.failed_at
    for number in range(5):
        assert not breakers.may_probe(breaker, breaker.retry_at - 0.1)
        pauses.append(breaker.retry_at - now)
        now = breaker.retry_at
        assert breakers.may_probe(breaker, now)
        breaker = breakers.probing(breaker, f"p{number}", now=now)
        assert breaker.state is PROBING
        assert not breakers.may_probe(breaker, now)
        breaker = breakers.failed(breaker, SITE, f"p{number}", "gone", RULES, now=now)
    assert pauses == [10.0, 20.0, 40.0, 40.0, 40.0]
    assert breaker.opened_at == 3.0


def test_a_failure_of_what_was_begun_before_changes_no_pause() -> None:
    breaker = after("t1", "t2", "t3", "t4")
    late = breakers.failed(breaker, SITE, "t9", "refused", RULES, now=5.0)
    assert (late.state, late.retry_at, late.failures) == (OPEN, breaker.retry_at, 5)


def test_one_that_says_nothing_for_a_whole_pause_is_not_the_only_one() -> None:
    breaker = breakers.probing(after("t1", "t2", "t3", "t4"), "p", now=100.0)
    assert not breakers.may_probe(breaker, 109.0)
    assert breakers.may_probe(breaker, 110.0)
    given_up = breakers.unanswered(breaker, now=101.0)
    assert breakers.may_probe(given_up, 101.0)


def test_a_few_that_end_otherwise_reset_the_pause_and_then_close_it() -> None:
    breaker = after("t1", "t2", "t3", "t4")
    for number in range(3):
        breaker = breakers.probing(breaker, f"p{number}", now=100.0)
        breaker = breakers.failed(breaker, SITE, f"p{number}", "gone", RULES, now=100.0)
    assert breaker.pause_s == 40.0
    first = breakers.ended_otherwise(breaker, RULES, now=200.0)
    assert first is not None
    assert (first.state, first.pause_s, first.retry_at) == (OPEN, 10.0, 210.0)
    # One that speaks against it begins the count anew.
    again = breakers.failed(first, SITE, "t9", "gone", RULES, now=210.0)
    second = breakers.ended_otherwise(again, RULES, now=220.0)
    assert second is not None
    third = breakers.ended_otherwise(second, RULES, now=230.0)
    assert third is not None
    assert breakers.ended_otherwise(third, RULES, now=240.0) is None


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0.0, 50.0)), max_size=60))
def test_it_never_opens_too_early_and_never_waits_too_long(steps: list[tuple[str, float]]) -> None:
    breaker: Breaker | None = None
    now = 0.0
    for failures, (task, wait_s) in enumerate(steps, start=1):
        now += wait_s
        if breaker is not None and breakers.may_probe(breaker, now):
            breaker = breakers.probing(breaker, task, now=now)
        breaker = breakers.failed(breaker, SITE, task, "refused", RULES, now=now)
        if breaker.state is not CLOSED:
            assert failures >= RULES.failures
            assert len(breaker.tasks) >= RULES.tasks
            assert breaker.retry_at <= now + RULES.max_pause_s
            assert RULES.pause_s <= breaker.pause_s <= RULES.max_pause_s
