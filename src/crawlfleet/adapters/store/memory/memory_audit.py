"""The audit log in plain dictionaries: a part of the memory store."""

from itertools import islice

from crawlfleet.adapters.store.memory.filters import is_wanted
from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.model.audit import AuditEntry, AuditFilter


class MemoryAudit:
    """Implements what `crawlfleet.ports.store.Store` says of the audit log."""

    def __init__(self) -> None:
        self._audit: Table[AuditEntry] = Table()

    async def audit(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> list[AuditEntry]:
        self._need_open()
        newest = self._audit.beyond(after, newest_first=True)
        return list(islice((entry for entry in newest if is_wanted(entry, filter)), max(limit, 0)))

    async def remove_audit(self, *, before: float, limit: int) -> int:
        self._need_open()
        old = sorted((entry.at, entry.id) for entry in self._audit if entry.at < before)
        gone = [id for _, id in old[: max(limit, 0)]]
        self._audit.remove(gone)
        return len(gone)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
