"""Sites that are taken for down: what is for them waits."""

from enum import StrEnum

import msgspec

Site = tuple[str, str]
"""A project and one of its targets: what one project's tasks say of a site stops no other's."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    """Failures are counted, and everything goes its way."""
    OPEN = "open"
    """Tasks for the target wait."""
    PROBING = "probing"
    """One of them was let through; what becomes of it decides."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a project's target that has failed lately."""

    project_id: str
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
    unclear: int = 0
    """How many in a row were let through and ended in a way that tells nothing of the target."""
    error: str = ""
    """What the last one failed with."""

    @property
    def site(self) -> Site:
        return self.project_id, self.target
