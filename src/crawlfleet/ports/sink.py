"""Where the output of a crawl goes: staged first, and it counts once its receipt is committed."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from crawlfleet.model.crawl.extraction import Item


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one visited page gave."""

    id: int
    url: str
    at: float
    items: Sequence[Item] = ()
    status: int = 0
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    """As it came, with its transfer and content encodings undone."""
    address: str = ""
    gone: bool = False
    """Of a page that was visited before: it is there no more, and gives nothing."""


class Sink(Protocol):
    """Takes pages in order. A receipt is a JSON value, small, and says all that is committed."""

    wants_bodies: bool
    """Whether headers and bodies are of use to it; else they need not be kept."""

    async def open(self, receipt: Any | None) -> None:
        """Begin, or go on after the committed `receipt`: whatever was staged beyond it is
        removed, also where this very sink staged it. Raises `SinkUnusable` with the remedy,
        changing nothing, when what is there does not go together with the receipt.

        After it began, the receipt of `stage([])` is to be committed before any page is staged:
        only so can pages of a life that ended before its first commit be told from a stranger's.
        """
        ...

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        """Make the pages durable, not yet counted; the receipt for all that was staged so far.

        What was staged before must have been committed, or taken back by `open`; else it counts
        with this receipt. After `SinkUnusable` the sink wants to be opened again."""
        ...

    async def finish(self) -> Mapping[str, Any]:
        """All is committed: put the output into its final form, and say where and how much.
        May be called twice."""
        ...

    async def close(self) -> None:
        """Let go without finishing. May be called twice."""
        ...
