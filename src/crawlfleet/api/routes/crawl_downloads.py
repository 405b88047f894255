"""The output of a crawl in the formats for downloads.

The stored output is lines of `[kind, fields]`. Nothing in it is trusted: texts that a spreadsheet
would calculate are escaped, and a browser is asked to save the file, not to show it.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.adapters.sinks.csv import CommaSeparated
from crawlfleet.api.http.streaming import Streamed
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.wire.output import OutputSummary
from crawlfleet.ports.sink import PageRecord

WARC: Final = "warc"
CSV: Final = "csv"
MEDIA_TYPES: Final = {
    WARC: "application/warc",
    "jsonl": "application/x-ndjson",
    CSV: "text/csv; charset=utf-8",
}
MAX_TEXT_CHARACTERS: Final = 2_000
"""Maximum length of a text in a preview; the download has the whole text."""
_lines: Final = msgspec.json.Decoder(list[tuple[str, msgspec.Raw]])
_rows: Final = msgspec.json.Decoder(list[tuple[str, dict[str, Any]]])


class ItemWriter(Protocol):
    """Writes items in a format."""

    def head(self) -> bytes: ...

    def write(self, lines: bytes) -> bytes:
        """Whole lines as they are kept, in the format."""
        ...


class JsonLinesWriter:
    """One item a line; with its kind where the crawl has several."""

    def __init__(self, summary: OutputSummary) -> None:
        self._kinds = summary.kinds

    def head(self) -> bytes:
        return b""

    def write(self, lines: bytes) -> bytes:
        rows = _lines.decode(_as_list(lines))
        if not self._kinds:
            return b"".join(bytes(fields) + b"\n" for _, fields in rows)
        return b"".join(_with_kind(kind, bytes(fields)) for kind, fields in rows)


class CommaSeparatedWriter:
    """One item a row, safe to open in a spreadsheet."""

    def __init__(self, summary: OutputSummary) -> None:
        self._format = CommaSeparated(summary.columns, kinds=summary.kinds)

    def head(self) -> bytes:
        return self._format.head("")

    def write(self, lines: bytes) -> bytes:
        items = [Item(kind=kind, fields=fields) for kind, fields in rows_of(lines)]
        units, _ = self._format.encode([PageRecord(id=0, url="", at=0.0, items=items)])
        return b"".join(units)


WRITERS: Final[dict[str, type[JsonLinesWriter] | type[CommaSeparatedWriter]]] = {
    "jsonl": JsonLinesWriter,
    CSV: CommaSeparatedWriter,
}


def formats_of(items: OutputSummary | None, pages: OutputSummary | None) -> tuple[str, ...]:
    """Return the formats in which the output can be downloaded."""
    formats = [WARC] if pages is not None else []
    if items is not None:
        formats += [format for format in WRITERS if format != CSV or items.columns]
    return tuple(sorted(formats, key=[*WRITERS, WARC].index))


async def with_used_columns(
    summary: OutputSummary, pieces: AsyncGenerator[bytes, None]
) -> OutputSummary:
    """Drop the columns of fields that no item has. With a flat map of selectors, the key that
    turned out to be the item is such a field. Reads only until each field was found."""
    unmet = set(summary.columns)
    async with aclosing(pieces):
        async for lines in pieces:
            unmet.difference_update(*await asyncio.to_thread(_names_in, lines))
            if not unmet:
                return summary
    columns = tuple(name for name in summary.columns if name not in unmet)
    return msgspec.structs.replace(summary, columns=columns or summary.columns)


def _names_in(lines: bytes) -> set[tuple[str, ...]]:
    """The names of fields that items have together."""
    return {tuple(fields) for _, fields in rows_of(lines)}


def download(
    pieces: AsyncGenerator[bytes, None],
    summary: OutputSummary,
    format: str,
    name: str,
    offset: int = 0,
) -> Streamed:
    """Return the output from this byte offset on, as a file to save."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{format}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    written = pieces if format == WARC else _written(pieces, WRITERS[format](summary))
    rest = _after(written, offset) if offset else written
    return Streamed(rest, media_type=MEDIA_TYPES[format], headers=headers)


async def _written(
    pieces: AsyncGenerator[bytes, None], writer: ItemWriter
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        if head := writer.head():
            yield head
        async for lines in pieces:
            # A piece may have a megabyte: others should not have to wait for it.
            yield await asyncio.to_thread(writer.write, lines)


async def _after(pieces: AsyncGenerator[bytes, None], offset: int) -> AsyncGenerator[bytes, None]:
    """Yield the output from this byte offset on. The bytes before it are produced and dropped,
    because their length is not known otherwise."""
    left = offset
    async with aclosing(pieces):
        async for piece in pieces:
            if left < len(piece):
                yield piece[left:]
            left = max(left - len(piece), 0)


def rows_of(lines: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Whole lines as they are kept, as kinds and fields."""
    return _rows.decode(_as_list(lines))


def shortened(value: Any) -> Any:
    """A value for a preview: long texts are cut."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT_CHARACTERS else f"{value[:MAX_TEXT_CHARACTERS]}…"
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [shortened(each) for each in value]
    return value


def _as_list(lines: bytes) -> bytes:
    """Lines of JSON as one list; a line break within a text is never a bare one."""
    return b"[" + lines.rstrip(b"\n").replace(b"\n", b",") + b"]"


def _with_kind(kind: str, fields: bytes) -> bytes:
    rest = fields[1:]
    comma = b"" if rest.strip() == b"}" else b","
    return b'{"kind":' + msgspec.json.encode(kind) + comma + rest + b"\n"
