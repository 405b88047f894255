"""What projects have used, in plain dictionaries: a part of the memory store."""

from collections.abc import Sequence

from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.model.task import Task
from crawlfleet.model.usage import UsageHour, UsageSums, together


class MemoryUsage:
    """Implements `crawlfleet.ports.usage.Usage`."""

    _tasks: Table[Task]

    def __init__(self) -> None:
        self._usage: dict[tuple[float, str], UsageHour] = {}

    def _put_usage(self, used: UsageSums) -> None:
        """Add what the changes of a commit that were made come to."""
        for row in used.rows():
            key = row.at, row.project_id
            before = self._usage.get(key)
            self._usage[key] = row if before is None else together((before, row))

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        self._need_open()
        rows = self._tasks.rows
        return {wanted: rows[wanted].project_id for wanted in ids if wanted in rows}

    async def usage(
        self, *, since: float, until: float, project_id: str | None = None
    ) -> list[UsageHour]:
        self._need_open()
        return [
            row
            for (at, owner), row in sorted(self._usage.items())
            if since <= at < until and project_id in (None, owner)
        ]

    async def remove_usage(self, *, before: float, limit: int) -> int:
        self._need_open()
        gone = [key for key in sorted(self._usage) if key[0] < before][: max(limit, 0)]
        for key in gone:
            del self._usage[key]
        return len(gone)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
