"""Index of an output's pages: the pages and their numbers of items, in order.

Files of items do not say which page a line is from. With this index beside them a later round of
the crawl can keep the items of pages that have not changed, and leave out those of the others.
"""

import asyncio
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.adapters.sinks.rotating_file import FileReceipt, RotatingFile
from crawlfleet.errors import SinkUnusable
from crawlfleet.ports.sink import PageRecord

READ_AT_ONCE: Final = 4096
ENTRY_BYTES: Final = 16


class PageIndex:
    """Implements `crawlfleet.ports.sink.Sink`; `entries` reads what it wrote."""

    wants_bodies = False

    def __init__(self, path: Path) -> None:
        self._parts = RotatingFile(path)

    async def open(self, receipt: Any | None) -> None:
        read = None if receipt is None else msgspec.convert(receipt, FileReceipt)
        await asyncio.to_thread(self._parts.open, read)

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        numbers = packed((page.id, len(page.items)) for page in pages)
        receipt = await asyncio.to_thread(self._parts.append, [numbers] if pages else [], 0)
        return msgspec.to_builtins(receipt)

    async def finish(self) -> Mapping[str, Any]:
        await asyncio.to_thread(self._parts.finish)
        return {}

    async def close(self) -> None:
        await asyncio.to_thread(self._parts.close)


def packed(entries: Iterator[tuple[int, int]] | Sequence[tuple[int, int]]) -> bytes:
    """Ids of pages and numbers of items, as they lie in the file."""
    return array("q", [number for entry in entries for number in entry]).tobytes()


def entries(path: Path) -> Iterator[tuple[int, int]]:
    """The id of each page in order, and how many items it gave."""
    with path.open("rb") as file:
        while data := file.read(READ_AT_ONCE * ENTRY_BYTES):
            if len(data) % ENTRY_BYTES:
                raise SinkUnusable(f"{path} is cut off; begin the crawl anew with --fresh")
            numbers = array("q", data)
            yield from zip(numbers[::2], numbers[1::2], strict=True)
