"""Retries of URLs: decides what happens to a URL whose visit gave no page."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from crawlfleet.core.politeness.host_clock import MAX_RETRY_AFTER_S
from crawlfleet.model.crawl.parameters import Outcome, Politeness

MAX_WAIT_S: Final = 3600.0
"""Longest wait between two tries of a URL, unless the site asks for more."""

_SPREAD: Final = 0.25
_MAY_PASS: Final = frozenset(
    {Outcome.DNS, Outcome.CONNECT, Outcome.TLS, Outcome.TIMEOUT, Outcome.BAD_RESPONSE}
)
_UNREACHED: Final = _MAY_PASS | {
    Outcome.SERVER_ERROR,
    Outcome.PAYMENT_REQUIRED,
    Outcome.BLOCKED,
    Outcome.ROBOTS,
    Outcome.REFUSED,
}
_PASSING_STATUS: Final = frozenset({408, 425, 429})
_LASTING_SERVER_ERRORS: Final = frozenset({501, 505, 506, 508, 510, 511})


class RetryUrl(NamedTuple):
    """Decision to visit a URL again, not before `due`."""

    due: float
    reason: str


class GiveUpUrl(NamedTuple):
    """Decision that a URL is not tried again."""

    reason: str


def supersedes(outcome: Outcome) -> bool:
    """Return whether a visit with this outcome replaces the URL's earlier content, even by nothing.
    If the page was not changed or not reached, its earlier content remains valid."""
    return outcome is not Outcome.NOT_MODIFIED and outcome not in _UNREACHED


def decide(
    outcome: Outcome,
    status: int,
    attempt: int,
    politeness: Politeness,
    *,
    retry_after_s: float | None,
    now: float,
    chance: float,
) -> RetryUrl | GiveUpUrl:
    """Decide after attempt number `attempt` (from 1); `chance` in [0, 1) is the jitter.

    Waits double from `retry_delay_s`, each a quarter shorter or longer by chance, so that the URLs
    of a recovered host are not all retried at once; never shorter than Retry-After.
    """
    if not may_pass(outcome, status):
        what = f"{outcome} {status}" if status else f"{outcome}"
        return GiveUpUrl(f"{what} does not pass by waiting")
    if attempt > politeness.retries:
        return GiveUpUrl(f"failed {attempt} times (politeness.retries {politeness.retries})")
    wait = min(politeness.retry_delay_s * 2.0 ** min(attempt - 1, 60), MAX_WAIT_S)
    wait *= 1.0 + _SPREAD * (2.0 * chance - 1.0)
    reason = f"try {attempt + 1} of {politeness.retries + 1} after {outcome}"
    if retry_after_s is not None and retry_after_s > wait:
        wait = min(retry_after_s, MAX_RETRY_AFTER_S)
        reason += f", as the site asked (Retry-After {retry_after_s:g} s)"
    return RetryUrl(now + wait, reason)


def may_pass(outcome: Outcome, status: int) -> bool:
    """Return whether the same request may succeed later."""
    if outcome in _MAY_PASS or status in _PASSING_STATUS:
        return True
    return outcome is Outcome.SERVER_ERROR and status not in _LASTING_SERVER_ERRORS


def retry_after_s(value: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or a date; `None` when it
    is not valid."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:12])
    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max((at - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None
