"""Circuit breakers: tasks for a site that seems to be down wait."""

from enum import StrEnum

import msgspec

Site = tuple[str, str]
"""A project and one of its targets: failures of one project's tasks do not affect other
projects."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    """Failures are counted, and tasks run."""
    OPEN = "open"
    """Tasks for the target wait."""
    PROBING = "probing"
    """One task was let through to test the target; its result opens or closes the breaker."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit breaker of a project's target that has failed lately."""

    project_id: str
    target: str
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    """Number of failures in a row."""
    tasks: frozenset[str] = frozenset()
    """Ids of some of the failed tasks: enough to distinguish one bad task from a bad site."""
    since: float
    """Time of the first failure in the row."""
    failed_at: float
    """Time of the last failure."""
    opened_at: float | None = None
    pause_s: float = 0.0
    retry_at: float = 0.0
    """Time when the next task is let through."""
    probe: str | None = None
    """Id of the task that was let through."""
    unclear: int = 0
    """Number of tests in a row whose end showed nothing about the target."""
    error: str = ""
    """Message of the last failure."""

    @property
    def site(self) -> Site:
        return self.project_id, self.target
