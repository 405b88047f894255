"""The fleet's politeness ledger: one for all crawls that visit a host, a domain or an address."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest


class Ledger(Protocol):
    """The calls of a crawl to the ledger; see `crawlfleet.model.wire.politeness`."""

    async def ask(self, ask: LedgerRequest) -> LedgerReply:
        """Return, pause and request windows, and get the granted ones. May be repeated when no
        answer came. Raises `LedgerUnavailable` when the ledger cannot be reached for now: then the
        crawl may use no more than it was granted.
        """
        ...


class LedgerPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries of a book as they were at one moment."""

    now: float
    """Time by the clock of the book, as all times in its entries."""
    born: float
    """Before this, windows may have been granted that the book does not know: it was begun then, or
    its last life ended. Minus infinity if that cannot be.
    """
    entries: Mapping[str, LedgerEntry]
    """Entries that exist, by key."""
    versions: Mapping[str, object] = {}
    """Versions of entries, by which the book finds whether they have changed."""


class LedgerBook(Protocol):
    """Stores a ledger: entries by key, which may be dropped when they are over. Every method may
    raise `LedgerUnavailable` with the outcome unknown.
    """

    @property
    def is_shared(self) -> bool:
        """True if all masters share the book; else only the leading master has it open."""
        ...

    async def open(self) -> None:
        """Prepare the storage. May be called twice."""
        ...

    async def close(self) -> None:
        """Close the storage. May be called twice."""
        ...

    async def read(self, keys: Sequence[str]) -> LedgerPage:
        """Return the entries of these keys."""
        ...

    async def write(self, page: LedgerPage, changes: Mapping[str, LedgerEntry]) -> bool:
        """Replace entries of a page that was read, all at once; returns `False`, and changes
        nothing, when one of them has changed since.
        """
        ...

    async def browse(self, limit: int) -> LedgerPage:
        """Return up to so many entries, for people."""
        ...
