"""Circuit breakers: decide when a target counts as down, and when it is tried again.

A target is a site that tasks of a project depend on. Failures in a row that indicate an outage, by
several tasks, open its breaker: tasks for the target then wait, at no cost in attempts. After a
pause one task is let through as a probe. If the probe fails in the same way, the pause is doubled;
any success closes the breaker, and so do a few probes that end without showing whether the target
is up.
"""

from typing import Final

import msgspec

from crawlfleet.model.breaker import Breaker, BreakerState, Site
from crawlfleet.model.event import Event
from crawlfleet.model.settings.recovery import BreakerSettings

LONGEST_ERROR: Final = 200
MAX_UNCLEAR: Final = 3
"""Limit of probes in a row that do not show whether the target answered; then the breaker
closes."""


def failed(
    before: Breaker | None,
    site: Site,
    task_id: str,
    error: str,
    rules: BreakerSettings,
    *,
    now: float,
) -> Breaker:
    """Return the breaker after a failure that indicates that its target is down."""
    if before is None or (
        before.state is BreakerState.CLOSED and now - before.failed_at > rules.window_s
    ):
        project_id, target = site
        before = Breaker(project_id=project_id, target=target, since=now, failed_at=now)
    tasks = before.tasks
    if len(tasks) < rules.tasks:
        tasks |= {task_id}
    after = msgspec.structs.replace(
        before,
        failures=before.failures + 1,
        tasks=tasks,
        failed_at=max(now, before.failed_at),
        unclear=0,
        error=error[:LONGEST_ERROR],
    )
    if after.state is BreakerState.CLOSED:
        if after.failures < rules.failures or len(tasks) < rules.tasks:
            return after
        return _opened(after, rules.pause_s, opened_at=now, now=now)
    if after.probe == task_id:
        pause_s = min(after.pause_s * 2, rules.max_pause_s)
        return _opened(after, pause_s, opened_at=after.opened_at or now, now=now)
    return after  # begun before it was opened


def _opened(breaker: Breaker, pause_s: float, *, opened_at: float, now: float) -> Breaker:
    return msgspec.structs.replace(
        breaker,
        state=BreakerState.OPEN,
        opened_at=opened_at,
        pause_s=pause_s,
        retry_at=now + pause_s,
        probe=None,
    )


def may_probe(breaker: Breaker, now: float) -> bool:
    """Return whether a task may be let through as a probe: also when an earlier probe has not ended
    for a whole pause, since no node takes it or it runs for hours."""
    return breaker.state is not BreakerState.CLOSED and now >= breaker.retry_at


def probing(breaker: Breaker, task_id: str, *, now: float) -> Breaker:
    """Return the breaker after this task was let through as a probe."""
    return msgspec.structs.replace(
        breaker, state=BreakerState.PROBING, probe=task_id, retry_at=now + breaker.pause_s
    )


def unanswered(breaker: Breaker, *, now: float) -> Breaker:
    """Return the breaker after a probe that never reached the target: its task was cancelled or
    returned, or was lost with its node. The next probe may start at once."""
    return msgspec.structs.replace(breaker, state=BreakerState.OPEN, retry_at=now, probe=None)


def ended_otherwise(breaker: Breaker, rules: BreakerSettings, *, now: float) -> Breaker | None:
    """Return the breaker after a probe that failed without indicating an outage: the next probe
    starts after the first pause. `None` after a few such probes in a row: then the breaker closes,
    so that other errors do not hold up the tasks."""
    if breaker.unclear + 1 >= MAX_UNCLEAR:
        return None
    return msgspec.structs.replace(
        breaker,
        state=BreakerState.OPEN,
        unclear=breaker.unclear + 1,
        pause_s=rules.pause_s,
        retry_at=now + rules.pause_s,
        probe=None,
    )


def idle_from(breaker: Breaker, rules: BreakerSettings) -> float:
    """Return when a breaker can be forgotten, if no task fails or waits before."""
    return breaker.failed_at + max(rules.window_s, rules.max_pause_s)


def is_stale(breaker: Breaker, rules: BreakerSettings, now: float) -> bool:
    """Return whether recorded failures are older than an outage would leave them: while tasks wait
    for a target, a probe fails at the end of each pause."""
    return now - breaker.failed_at > rules.window_s + rules.max_pause_s


def opened_event(breaker: Breaker, now: float) -> Event:
    """Return the event that a target is considered down."""
    return Event(
        kind="breaker.opened",
        subject=breaker.target,
        at=now,
        cause=f"{breaker.failures} failures in a row: {breaker.error}",
        to_state=str(BreakerState.OPEN),
        details={"failures": breaker.failures, "retry_at": breaker.retry_at},
        project_id=breaker.project_id,
    )


def closed_event(project_id: str | None, target: str, now: float, cause: str) -> Event:
    """Return the event that tasks for a target go on: those of one project, or of all if none is
    named."""
    return Event(
        kind="breaker.closed",
        subject=target,
        at=now,
        cause=cause,
        from_state=str(BreakerState.OPEN),
        to_state=str(BreakerState.CLOSED),
        project_id=project_id,
    )


def in_words(breaker: Breaker, now: float) -> str:
    """Return the reason why a task waits, as a sentence."""
    then = "one task was let through to see"
    if breaker.state is BreakerState.OPEN:
        wait_s = max(breaker.retry_at - now, 0.0)
        then = f"one task is let through in {wait_s:.0f} s to see"
    return (
        f"waits since {breaker.target} is taken for down after {breaker.failures} failures in a "
        f"row ({breaker.error}); {then}, and `crawlfleet breakers close {breaker.target} "
        f"--project {breaker.project_id}` lets all go on. It costs the task nothing."
    )
