"""Targets that fail, as they are shown."""

from datetime import datetime
from typing import Literal

import msgspec


class BreakerView(msgspec.Struct, frozen=True, kw_only=True):
    """A site that tasks depend on, and how it stands."""

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


class BreakerList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BreakerView]
    total: int
    """How many there are, with those that were left out."""
