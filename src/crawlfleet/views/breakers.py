"""Targets that fail, as they are shown."""

from datetime import datetime
from typing import Literal, Self

import msgspec

from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.views.fields import instant, moment


class BreakerView(msgspec.Struct, frozen=True, kw_only=True):
    """A site that tasks of a project depend on, and how it stands for them."""

    project_id: str | None = None
    """Whose tasks; not set in the answer to who closes it for all projects."""
    target: str
    state: Literal["open", "probing", "closed"]
    """`open`: tasks for it wait; `probing`: one of them was let through; `closed`: they go their
    way, and failures are counted."""
    failures: int
    """In a row, without a success between them."""
    since: datetime | None = None
    """When the first of them happened."""
    opened_at: datetime | None = None
    retry_at: datetime | None = None
    """When the next task is let through."""
    probe: str | None = None
    """The task that was let through."""
    error: str = ""
    """What the last one failed with."""
    waiting: int = 0
    """How many tasks wait for it, as far as this master knows."""

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
    """Whose tasks go on."""

    project_id: str | None = None
    """Those of this project; of all, or of the one that the key is bound to, if it is not said."""


class BreakerList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BreakerView]
    total: int
    """How many there are, with those that were left out."""
