"""Circuit breakers as the API shows them."""

from datetime import datetime
from typing import Literal, Self

import msgspec

from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.views.fields import instant, moment


class BreakerView(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit breaker of a site for the tasks of a project."""

    project_id: str | None = None
    """Project of the tasks; not set in the answer to a request that closes it for all projects."""
    target: str
    state: Literal["open", "probing", "closed"]
    """`open`: tasks for the target wait; `probing`: one task tests it; `closed`: tasks run and
    failures are counted."""
    failures: int
    """Failures in a row."""
    since: datetime | None = None
    """Time of the first failure in the row."""
    opened_at: datetime | None = None
    retry_at: datetime | None = None
    """Time when the next task tests the target."""
    probe: str | None = None
    """Id of the task that tests the target."""
    error: str = ""
    """Message of the last failure."""
    waiting: int = 0
    """Number of tasks that wait for the target, as far as this master knows."""

    @classmethod
    def of(cls, breaker: Breaker, waiting: int) -> Self:
        is_open = breaker.state is not BreakerState.CLOSED
        return cls(
            project_id=breaker.project_id,
            target=breaker.target,
            state=breaker.state.value,
            failures=breaker.failures,
            since=moment(breaker.since),
            opened_at=instant(breaker.opened_at),
            retry_at=moment(breaker.retry_at) if is_open else None,
            probe=breaker.probe,
            error=breaker.error,
            waiting=waiting,
        )


class BreakerClosing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to close the breaker of a target."""

    project_id: str | None = None
    """Project to close it for; when not set, all projects or the project of the key."""


class BreakerList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BreakerView]
    total: int
    """Number of all breakers, including those that are not in `items`."""
