"""Sites that are taken for down: what is for them waits."""

from enum import StrEnum

import msgspec


class BreakerState(StrEnum):
    CLOSED = "closed"
    """Failures are counted, and everything goes its way."""
    OPEN = "open"
    """Tasks for the target wait."""
    PROBING = "probing"
    """One of them was let through; what becomes of it decides."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a target that has failed lately."""

    target: str
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    """In a row, without a success between them."""
    tasks: frozenset[str] = frozenset()
    """Some of those that failed: as many as it takes to tell one bad task from a bad site."""
    since: float
    """When the first of them failed."""
    failed_at: float
    """When the last did."""
    opened_at: float | None = None
    pause_s: float = 0.0
    retry_at: float = 0.0
    """When the next task is let through."""
    probe: str | None = None
    """The task that was."""
    error: str = ""
    """What the last one failed with."""
