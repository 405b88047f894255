"""What projects have used: counted by the hour, in the commits that tell of it."""

from collections.abc import Iterable
from typing import Final

import msgspec

HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0


class UsageHour(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a project used in an hour; or, on its way to the store, what is to be added to that."""

    project_id: str
    at: float
    """When the hour begins."""
    submitted: int = 0
    """Tasks, each shard as one of its own, as below."""
    completed: int = 0
    failed: int = 0
    """Also those that ran out of time."""
    cancelled: int = 0
    attempts: int = 0
    """Executions that ended, however."""
    cpu_s: float = 0.0
    """As far as executors tell."""
    run_s: float = 0.0
    """From the beginning to the end of executions."""
    pages: int = 0
    bytes: int = 0
    """Fetched, as far as executors tell."""
    peak_waiting: int = 0
    peak_running: int = 0
    storage_bytes: int | None = None
    """Kept by the master when it was last measured; not measured when not set."""


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
"""How the fields of what is told of the same hour come together."""


def together(one: UsageHour, other: UsageHour) -> UsageHour:
    """Both as one; `other` is the later, and of the same project and hour."""
    fields: dict[str, float | None] = {
        name: getattr(one, name) + getattr(other, name) for name in ADDED
    }
    for name in LARGEST:
        fields[name] = max(getattr(one, name), getattr(other, name))
    for name in LATEST:
        later = getattr(other, name)
        fields[name] = getattr(one, name) if later is None else later
    return msgspec.structs.replace(one, **fields)


class UsageSums:
    """Adds up what the changes of a commit that were made have used: a row for each project."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[str, float], UsageHour] = {}

    def take(self, rows: Iterable[UsageHour]) -> None:
        """Of a change that was made."""
        for row in rows:
            key = row.project_id, row.at
            before = self._sums.get(key)
            self._sums[key] = row if before is None else together(before, row)

    def rows(self) -> list[UsageHour]:
        return [*self._sums.values()]
