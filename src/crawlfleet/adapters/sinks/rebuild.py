"""Rebuilds a file of items after a later round: items that still hold, then the new ones.

The present file is only read; the caller replaces it once the new one is whole.
"""

import gzip
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from crawlfleet import zstd
from crawlfleet.adapters.sinks.page_index import entries, packed
from crawlfleet.adapters.sinks.rotating_file import Packing, packer_of
from crawlfleet.errors import SinkUnusable

UNIT_BYTES: Final = 1_000_000
"""Bytes that are packed and written at once."""
ENTRIES_AT_ONCE: Final = 10_000
RENEWABLE: Final = ("jsonl", "csv", "warc")


class Written(NamedTuple):
    """A file of items, and the index of its pages."""

    items: Path
    pages: Path


def renew(before: Written, since: Written, into: Path, *, format: str, packing: Packing) -> None:
    """Write the items of `before` without those of pages in `since`, then those of `since`. An
    archive keeps all, as a history. Raises `SinkUnusable` where a file does not match its index.
    """
    if format == "warc":
        with into.open("wb") as file:
            for part in (before.items, since.items):
                with part.open("rb") as there:
                    shutil.copyfileobj(there, file)
            _sync(file)
        return
    with into.open("wb") as file, _reading(before, format) as old, _reading(since, format) as new:
        writer = _Packed(file, packing)
        if format == "csv":
            writer.write(_next(old, before.items))
            next(new, None)
        superseded = {page for page, _ in entries(since.pages)}
        for page, count in entries(before.pages):
            kept = page not in superseded
            for _ in range(count):
                record = _next(old, before.items)
                if kept:
                    writer.write(record)
        if next(old, None) is not None:
            raise _mismatch(before.items)
        for record in new:
            writer.write(record)
        writer.end()
        _sync(file)


def renew_index(before: Path, since: Path, into: Path) -> int:
    """The index of the files that `renew` makes; how many items there are."""
    superseded = {page for page, _ in entries(since)}
    kept = (entry for entry in entries(before) if entry[0] not in superseded)
    living = (entry for entry in chain(kept, entries(since)) if entry[1])
    items = 0
    with into.open("wb") as file:
        while some := list(islice(living, ENTRIES_AT_ONCE)):
            file.write(packed(some))
            items += sum(count for _, count in some)
        _sync(file)
    return items


class _Packed:
    """Collects records, and writes them in units that are packed each by itself."""

    def __init__(self, file: BinaryIO, packing: Packing) -> None:
        self._file = file
        self._pack = packer_of(packing)
        self._packs = packing is not None
        self._held = bytearray()
        self._empty = True

    def write(self, record: bytes) -> None:
        self._held += record
        if len(self._held) >= UNIT_BYTES:
            self._flush()

    def end(self) -> None:
        if self._held or (self._empty and self._packs):
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._pack(bytes(self._held)))
        self._held.clear()
        self._empty = False


@contextmanager
def _reading(written: Written, format: str) -> Iterator[Iterator[bytes]]:
    path = written.items
    with path.open("rb") as file:
        unpacked: BinaryIO = file
        if path.suffix.lower() == ".gz":
            unpacked = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
        elif path.suffix.lower() == ".zst":
            unpacked = zstd.ZstdFile(file)  # type: ignore[assignment]
        yield _records(unpacked, format, path)


def _records(unpacked: BinaryIO, format: str, path: Path) -> Iterator[bytes]:
    try:
        yield from _rows(unpacked) if format == "csv" else unpacked
    except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError):
        raise _mismatch(path) from None


def _rows(lines: BinaryIO) -> Iterator[bytes]:
    """Rows of CSV: a line break within quotes does not end one."""
    row = b""
    for line in lines:
        row += line
        if not row.count(b'"') % 2:
            yield row
            row = b""
    if row:
        yield row


def _next(records: Iterator[bytes], path: Path) -> bytes:
    record = next(records, None)
    if record is None:
        raise _mismatch(path)
    return record


def _mismatch(path: Path) -> SinkUnusable:
    return SinkUnusable(
        f"{path} has other items than the crawl wrote to it; put it back as it was, or begin anew "
        "with --fresh"
    )


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
