"""What projects have used: counted by the hour, in the commits that tell of it."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
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
    """Adds up what the changes of a commit that were made have used: a row for each project."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: dict[tuple[str, float], list[UsageHour]] = {}
        """Added up once, at the end: a commit has hundreds for the same project and hour."""

    def take(self, rows: Iterable[UsageHour]) -> None:
        """Of a change that was made."""
        for row in rows:
            self._told.setdefault((row.project_id, row.at), []).append(row)

    def rows(self) -> list[UsageHour]:
        return [*map(together, self._told.values())]
