"""Usage of projects by the hour, committed with the changes that cause it."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0


class UsageHour(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Usage of a project in an hour; in a change, the amounts to add to that hour."""

    project_id: str
    at: float
    """Beginning of the hour."""
    submitted: int = 0
    """Submitted tasks; each shard of a split task counts as one, here and below."""
    completed: int = 0
    failed: int = 0
    """Tasks that failed, including timeouts."""
    cancelled: int = 0
    attempts: int = 0
    """Executions that ended in any state."""
    cpu_s: float = 0.0
    """CPU seconds, as far as executors report them."""
    run_s: float = 0.0
    """Seconds between start and end, over all executions."""
    pages: int = 0
    bytes: int = 0
    """Bytes fetched, as far as executors report them."""
    peak_waiting: int = 0
    peak_running: int = 0
    storage_bytes: int | None = None
    """Size of stored output and bundles at the last measurement; `None` when not measured."""


ADDED: Final = (
    "submitted",
    "completed",
    "failed",
    "cancelled",
    "attempts",
    "cpu_s",
    "run_s",
    "pages",
    "bytes",
)
LARGEST: Final = ("peak_waiting", "peak_running")
LATEST: Final = ("storage_bytes",)
"""Fields by the way in which rows for the same hour are combined: added, largest or latest
value."""


def together(rows: Sequence[UsageHour]) -> UsageHour:
    """All of them as one: of the same project and hour, at least one, and the latest last."""
    if len(rows) == 1:
        return rows[0]
    fields: dict[str, float | None] = {name: sum(map(attrgetter(name), rows)) for name in ADDED}
    for name in LARGEST:
        fields[name] = max(map(attrgetter(name), rows))
    for name in LATEST:
        told = (getattr(row, name) for row in reversed(rows))
        fields[name] = next((value for value in told if value is not None), None)
    return msgspec.structs.replace(rows[0], **fields)


class UsageSums:
    """Adds up the usage of the changes that a commit made, in one row for each project and hour."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[tuple[str, float], list[UsageHour]] = {}
        """Added up once, at the end: a commit has hundreds for the same project and hour."""

    def take(self, rows: Iterable[UsageHour]) -> None:
        """Add the usage of a change that was made."""
        for row in rows:
            self._told.setdefault((row.project_id, row.at), []).append(row)

    def rows(self) -> list[UsageHour]:
        return [*map(together, self._told.values())]
