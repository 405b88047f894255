"""The port for the output of a crawl: pages are staged first, and count once their receipt is
committed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from crawlfleet.model.crawl.extraction import Item


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one visit, as sinks get it: the response and its items."""

    id: int
    url: str
    at: float
    items: Sequence[Item] = ()
    status: int = 0
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    """Body of the response, with its transfer and content encodings undone."""
    address: str = ""
    gone: bool = False
    """Set for a page of an earlier round that does not exist any more, and has no items."""


class Sink(Protocol):
    """Takes pages in order. Its receipts are small JSON values that describe all committed
    output.
    """

    wants_bodies: bool
    """Set if the sink uses headers and bodies; else they need not be kept."""

    async def open(self, receipt: Any | None) -> None:
        """Begin, or go on after the committed `receipt`: output that was staged beyond it is
        removed, also if this very sink staged it. Raises `SinkUnusable` with the remedy, changing
        nothing, when the existing output does not match the receipt.

        After a beginning, commit the receipt of `stage([])` before any page is staged: only so can
        pages of a life that ended before its first commit be told from those of another crawl.
        """
        ...

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        """Make the pages durable, not yet counted; returns the receipt for all staged so far.

        Pages that were staged before must have been committed, or taken back by `open`; else they
        count with this receipt. After `SinkUnusable` the sink must be opened again.
        """
        ...

    async def finish(self) -> Mapping[str, Any]:
        """Put the committed output into its final form; returns its places and sizes. May be called
        twice.
        """
        ...

    async def close(self) -> None:
        """Close without finishing. May be called twice."""
        ...
