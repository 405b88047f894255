"""When a failed attempt is tried again, and when it is given up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.tasks.recovery import GiveUpTask, RetryTask, after_failure, delay_s
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import Backoff, ErrorClass, RetryPolicy, Task, TaskError

LIMITS = RecoverySettings(max_losses=3)


def verdict(kind: ErrorClass, *, retries: int = 0, losses: int = 0, **fields: object):
    task = Task(
        id="task-1",
        project_id="p",
        task_type="t",
        created_at=0.0,
        updated_at=0.0,
        retry_count=retries,
        loss_count=losses,
        **fields,
    )
    error = TaskError(error_class=kind, message="it broke")
    return after_failure(task, error, LIMITS, now=100.0, chance=0.5)


@pytest.mark.parametrize("kind", [ErrorClass.ERROR, ErrorClass.LOST])
def test_nothing_is_tried_again_after_its_deadline(kind: ErrorClass) -> None:
    assert isinstance(verdict(kind, deadline=102.0), RetryTask)
    given_up = verdict(kind, deadline=100.0)
    assert isinstance(given_up, GiveUpTask)
    assert "deadline" in given_up.reason


@pytest.mark.parametrize(
    ("kind", "retries", "losses", "expected"),
    [
        (ErrorClass.ERROR, 0, 0, RetryTask(at=101.0, retry_count=1, loss_count=0)),
        (ErrorClass.ERROR, 1, 0, RetryTask(at=102.0, retry_count=2, loss_count=0)),
        (ErrorClass.CRASH, 2, 0, RetryTask(at=104.0, retry_count=3, loss_count=0)),
        (ErrorClass.TIMEOUT, 0, 2, RetryTask(at=101.0, retry_count=1, loss_count=2)),
        # The first loss goes back at once, the next ones wait.
        (ErrorClass.LOST, 0, 0, RetryTask(at=100.0, retry_count=0, loss_count=1)),
        (ErrorClass.LOST, 3, 2, RetryTask(at=102.0, retry_count=3, loss_count=3)),
    ],
)
def test_a_failure_within_its_limits_is_tried_again(
    kind: ErrorClass, retries: int, losses: int, expected: RetryTask
) -> None:
    assert verdict(kind, retries=retries, losses=losses) == expected


@pytest.mark.parametrize(
    ("kind", "retries", "losses", "reason"),
    [
        (ErrorClass.ERROR, 3, 0, "failed 4 times (max_retries 3)"),
        (ErrorClass.CRASH, 3, 0, "failed 4 times (max_retries 3)"),
        (ErrorClass.INVALID, 0, 0, "errors of class invalid are not retried"),
        (ErrorClass.LOST, 0, 3, "vanished with its node 4 times (limit 3)"),
    ],
)
def test_a_failure_beyond_its_limits_is_given_up(
    kind: ErrorClass, retries: int, losses: int, reason: str
) -> None:
    given_up = verdict(kind, retries=retries, losses=losses)
    assert isinstance(given_up, GiveUpTask)
    assert given_up.reason == reason


def test_a_policy_chooses_which_errors_are_tried_again() -> None:
    policy = RetryPolicy(on=(ErrorClass.NETWORK,))
    assert isinstance(verdict(ErrorClass.NETWORK, retry_policy=policy), RetryTask)
    assert isinstance(verdict(ErrorClass.ERROR, retry_policy=policy), GiveUpTask)


def test_losing_the_node_costs_no_retry() -> None:
    lost = verdict(ErrorClass.LOST, max_retries=0)
    assert isinstance(lost, RetryTask)
    assert lost.retry_count == 0


@given(
    step=st.integers(1, 5_000),
    chance=st.floats(0, 1, exclude_max=True),
    factor=st.floats(1, 100),
    jitter=st.floats(0, 1),
)
def test_a_delay_stays_within_its_bounds(
    step: int, chance: float, factor: float, jitter: float
) -> None:
    policy = RetryPolicy(initial_delay_s=1.0, factor=factor, max_delay_s=60.0, jitter=jitter)
    assert 0.0 <= delay_s(policy, step, chance) <= 60.0 * (1 + jitter)


def test_a_class_of_errors_may_have_waits_of_its_own() -> None:
    policy = RetryPolicy(
        initial_delay_s=2.0, classes={ErrorClass.NETWORK: Backoff(initial_delay_s=30.0, factor=3.0)}
    )
    waits = [delay_s(policy, step, 0.5, ErrorClass.NETWORK) for step in (1, 2, 3, 4)]
    assert waits == [30.0, 90.0, 270.0, 300.0]
    assert delay_s(policy, 1, 0.5, ErrorClass.ERROR) == 2.0


def test_who_is_blocked_waits_a_minute_unless_told_otherwise() -> None:
    assert delay_s(RetryPolicy(), 1, 0.5, ErrorClass.BLOCKED) == 60.0
    assert delay_s(RetryPolicy(), 9, 0.5, ErrorClass.BLOCKED) == 3600.0
    own = RetryPolicy(classes={ErrorClass.BLOCKED: Backoff(initial_delay_s=5.0)})
    assert delay_s(own, 1, 0.5, ErrorClass.BLOCKED) == 5.0
    retried = verdict(ErrorClass.BLOCKED)
    assert isinstance(retried, RetryTask)
    assert retried.at == 160.0


def test_the_time_for_retries_counts_from_the_first_failure() -> None:
    policy = RetryPolicy(max_total_s=50.0)
    first = verdict(ErrorClass.ERROR, retry_policy=policy)
    assert isinstance(first, RetryTask)
    since = TaskError(error_class=ErrorClass.ERROR, message="", first_at=60.0)
    late = verdict(ErrorClass.ERROR, retries=1, retry_policy=policy, error=since)
    assert isinstance(late, RetryTask)
    since = TaskError(error_class=ErrorClass.ERROR, message="", first_at=49.0)
    late = verdict(ErrorClass.ERROR, retries=1, retry_policy=policy, error=since)
    assert isinstance(late, GiveUpTask)
    assert "max_total_s 50" in late.reason
    # Sent back by a person it begins anew, whatever was before.
    again = verdict(ErrorClass.ERROR, retries=0, retry_policy=policy, error=since)
    assert isinstance(again, RetryTask)
