"""Recovery of tasks: decides after a failed or lost attempt whether to retry later or give up for
good.

Two counters bound every task. `retry_count` counts failures of the work itself, up to the task's
`max_retries`. `loss_count` counts attempts that were lost with their node, up to the fleet's
`max_losses`: losing a node is rarely the task's fault, yet a task that takes down each node that
runs it must end in the dead-letter list. After its deadline, or when its policy's time for retries
is over, a task is not retried, whatever is left of both.

The delay of a retry follows from the class of the error. The budget of all retries together is
checked when they come due (`core.retries.retry_budget`).
"""

from typing import Final

import msgspec

from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import Backoff, ErrorClass, RetryPolicy, Task, TaskError

USUAL: Final = {ErrorClass.BLOCKED: Backoff(initial_delay_s=60.0, max_delay_s=3600.0)}
"""Default backoff of error classes that need their own: a site that blocks requests needs longer
pauses."""


class RetryTask(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to return a task to the queue, not to be assigned before `at`."""

    at: float
    retry_count: int
    loss_count: int


class GiveUpTask(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to move a task to the dead-letter list, with its reason."""

    reason: str
    retry_count: int
    loss_count: int


def after_failure(
    task: Task, error: TaskError, limits: RecoverySettings, *, now: float, chance: float
) -> RetryTask | GiveUpTask:
    """Decide about a task whose attempt ended with `error`; `chance` in [0, 1) is the jitter."""
    lost = error.error_class is ErrorClass.LOST
    retries = task.retry_count + (not lost)
    losses = task.loss_count + lost
    if error.error_class not in task.retry_policy.on:
        reason = f"errors of class {error.error_class} are not retried"
        return GiveUpTask(reason=reason, retry_count=task.retry_count, loss_count=losses)
    if lost and losses > limits.max_losses:
        reason = f"vanished with its node {losses} times (limit {limits.max_losses})"
        return GiveUpTask(reason=reason, retry_count=task.retry_count, loss_count=losses)
    if retries > task.max_retries and not lost:
        reason = f"failed {retries} times (max_retries {task.max_retries})"
        return GiveUpTask(reason=reason, retry_count=task.retry_count, loss_count=losses)
    # A lost attempt has already cost a session timeout: the first loss goes back at once.
    step = max(losses - 1, 0) if lost else retries
    policy = task.retry_policy
    wait = delay_s(policy, step, chance, error.error_class) if step else 0.0
    total_s = policy.max_total_s
    if total_s is not None and now + wait > first_failure(task, now) + total_s:
        reason = f"its time for retries is over (max_total_s {total_s:g})"
        return GiveUpTask(reason=reason, retry_count=task.retry_count, loss_count=losses)
    if task.deadline is not None and now + wait >= task.deadline:
        reason = "its deadline passes before it could be tried again"
        return GiveUpTask(reason=reason, retry_count=task.retry_count, loss_count=losses)
    return RetryTask(at=now + wait, retry_count=retries, loss_count=losses)


def first_failure(task: Task, now: float) -> float:
    """Return the time of the first failure of the present series of failures."""
    counted = task.retry_count or task.loss_count
    return task.error.first_at if counted and task.error and task.error.first_at else now


def delay_s(
    policy: RetryPolicy, step: int, chance: float, after: ErrorClass | None = None
) -> float:
    """Return the delay of retry number `step` (from 1) after such an error, spread by the policy's
    jitter."""
    own = None if after is None else policy.classes.get(after, USUAL.get(after))
    initial_s, factor, most_s = policy.initial_delay_s, policy.factor, policy.max_delay_s
    if own is not None:
        initial_s = initial_s if own.initial_delay_s is None else own.initial_delay_s
        factor = factor if own.factor is None else own.factor
        most_s = most_s if own.max_delay_s is None else own.max_delay_s
    try:
        growth = factor ** (step - 1)
    except OverflowError:
        growth = float("inf")
    plain = min(initial_s * growth, most_s)
    return plain * (1.0 + policy.jitter * (2.0 * chance - 1.0))
