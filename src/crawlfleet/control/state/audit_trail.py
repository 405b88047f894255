"""Audit: signs the commits of a request with its caller, and reads the audit log.

The trail of a request is a context variable, set where the request is authenticated and read by
`FleetState.commit` alone. So no service can forget it, and commits of the master itself are not
signed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.change import Change, Signed
from crawlfleet.model.ids import AUDIT, make_id
from crawlfleet.ports.store import Refusal, Store
from crawlfleet.ports.system import System


class AuditTrail:
    """The changes of one request so far: one audit entry, however many commits it takes."""

    def __init__(self, entry: AuditEntry) -> None:
        self._entry = entry
        """Entry of the request; its id and time are set when the first change is signed."""

    def sign(self, changes: Sequence[Change], system: System) -> list[Change]:
        """Return the changes with this request's entry; it counts those that the store accepts."""
        if not self._entry.id:
            # As exact as it is shown, so that whoever asks for what they saw finds it.
            now = round(system.now(), 6)
            id = make_id(AUDIT, now, system.entropy)
            self._entry = msgspec.structs.replace(self._entry, id=id, at=now)
        return [msgspec.structs.replace(change, audit=self._entry) for change in changes]

    def note(self, changes: Sequence[Change], refusals: Sequence[Refusal | None]) -> None:
        """Continue the entry with those of the signed changes that the store accepted."""
        signed = Signed()
        for change, refusal in zip(changes, refusals, strict=True):
            if refusal is None:
                signed.take(change)
        for entry in signed.entries():
            self._entry = entry


_current: ContextVar[AuditTrail | None] = ContextVar("trail", default=None)
current_trail = _current.get


@contextmanager
def leaving(trail: AuditTrail) -> Iterator[None]:
    """Sign all commits within this block."""
    before = _current.set(trail)
    try:
        yield
    finally:
        _current.reset(before)


class AuditLog:
    """Reads the audit log."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def find(
        self, filter: AuditFilter, *, after: str | None, limit: int
    ) -> tuple[list[AuditEntry], str | None]:
        """Return a page of entries, newest first, and where the next page begins."""
        found = await self._store.audit(filter, after=after, limit=limit + 1)
        page = found[:limit]
        return page, page[-1].id if len(found) > limit else None
