"""The fleet's politeness: one ledger for all crawls that touch a host, a domain or an address."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest


class Ledger(Protocol):
    """What a crawl asks; see `crawlfleet.model.wire.politeness`."""

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        """Say what is returned, paused and wanted, and hear what may be done. May be said again
        when no answer came. Raises `LedgerUnavailable` when there is none to be had for now: then
        nothing may be asked beyond what was granted."""
        ...


class LedgerPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries of a book as they were at one moment."""

    now: float
    """By the clock of the book, as all times in its entries."""
    born: float
    """Until then windows may have been granted of which the book knows nothing: it was begun, or
    its last life ended. What never was is minus infinity."""
    entries: Mapping[str, LedgerEntry]
    """Those that exist."""
    versions: Mapping[str, object] = {}
    """By which the book tells whether they are still the same."""


class LedgerBook(Protocol):
    """Where a ledger is kept: entries by key, which may be forgotten when they are over. Every
    method may raise `LedgerUnavailable` with the outcome unknown."""

    @property
    def is_shared(self) -> bool:
        """Whether all masters have the same one; else only the one that leads has it open."""
        ...

    async def open(self) -> None:
        """Make ready what it is kept in. May be called twice."""
        ...

    async def close(self) -> None:
        """May be called twice."""
        ...

    async def read(self, keys: Sequence[str]) -> LedgerPage:
        """The entries of these keys."""
        ...

    async def write(self, page: LedgerPage, changes: Mapping[str, LedgerEntry]) -> bool:
        """Replace entries of a page that was read, all at once; `False`, and nothing is changed,
        when one of them is not as it was."""
        ...

    async def browse(self, limit: int) -> LedgerPage:
        """Up to so many entries, for people."""
        ...
