"""What to do after an attempt that did not succeed: try again later, or give up for good.

Two counters bound every task. `retry_count` counts failures of the work itself, up to the task's
`max_retries`. `loss_count` counts attempts that vanished with their node, up to the fleet's
`max_losses`: losing a node is rarely the task's fault, yet a task that takes down each node
that touches it must end in the dead-letter list and not go on for ever. After its deadline a task
is not tried again, whatever is left of both.
"""

import msgspec

from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import ErrorClass, RetryPolicy, Task, TaskError


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Back to the queue, not to be assigned before `at`."""

    at: float
    retry_count: int
    loss_count: int


class GiveUp(msgspec.Struct, frozen=True, kw_only=True):
    """To the dead-letter list, for this reason."""

    reason: str
    retry_count: int
    loss_count: int


def after_failure(
    task: Task, error: TaskError, limits: RecoverySettings, *, now: float, chance: float
) -> Retry | GiveUp:
    """The verdict on a task whose attempt ended with `error`; `chance` in [0, 1) is the jitter."""
    lost = error.error_class is ErrorClass.LOST
    retries = task.retry_count + (not lost)
    losses = task.loss_count + lost
    if error.error_class not in task.retry_policy.on:
        reason = f"errors of class {error.error_class} are not retried"
        return GiveUp(reason=reason, retry_count=task.retry_count, loss_count=losses)
    if lost and losses > limits.max_losses:
        reason = f"vanished with its node {losses} times (limit {limits.max_losses})"
        return GiveUp(reason=reason, retry_count=task.retry_count, loss_count=losses)
    if retries > task.max_retries and not lost:
        reason = f"failed {retries} times (max_retries {task.max_retries})"
        return GiveUp(reason=reason, retry_count=task.retry_count, loss_count=losses)
    # A lost attempt has already cost a session timeout: the first loss goes back at once.
    step = max(losses - 1, 0) if lost else retries
    wait = delay_s(task.retry_policy, step, chance) if step else 0.0
    if task.deadline is not None and now + wait >= task.deadline:
        reason = "its deadline passes before it could be tried again"
        return GiveUp(reason=reason, retry_count=task.retry_count, loss_count=losses)
    return Retry(at=now + wait, retry_count=retries, loss_count=losses)


def delay_s(policy: RetryPolicy, step: int, chance: float) -> float:
    """The wait before retry number `step` (from 1), spread by the policy's jitter."""
    try:
        growth = policy.factor ** (step - 1)
    except OverflowError:
        growth = float("inf")
    plain = min(policy.initial_delay_s * growth, policy.max_delay_s)
    return plain * (1.0 + policy.jitter * (2.0 * chance - 1.0))
