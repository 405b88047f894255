"""One item a row, as CSV (RFC 4180, UTF-8), safe to open in a spreadsheet.

The columns are fixed when a crawl begins. A text that a spreadsheet would take for a formula gets
an apostrophe before it; numbers stay numbers.
"""

import csv
import io
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from crawlfleet.adapters.sinks.file import FileSink, file_sink
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.parameters import SinkSpec
from crawlfleet.ports.sink import PageRecord

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of cells that some spreadsheet calculates."""
_NUMBER: Final = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)


def from_spec(spec: SinkSpec) -> FileSink:
    """The sink of a crawl's specification; raises `InvalidRequest` when it has no columns."""
    if not spec.columns:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="output",
                    message="is CSV, and the crawl has no fields to be its columns",
                    remedy="give selectors, or keep whole pages in a .warc.gz",
                    value=spec.url,
                )
            ]
        )
    return file_sink(spec, CommaSeparated(spec.columns, kinds=spec.kinds))


class CommaSeparated:
    """Implements `crawlfleet.adapters.sinks.file.PageFormat`. Fields without a column are left
    out."""

    wants_bodies = False

    def __init__(self, columns: Sequence[str], *, kinds: bool = False) -> None:
        self._columns = tuple(columns)
        self._kinds = kinds

    def head(self, name: str) -> bytes:
        columns = (*(("kind",) if self._kinds else ()), *self._columns)
        return _written([[cell(column) for column in columns]])

    def encode(self, pages: Sequence[PageRecord]) -> tuple[list[bytes], int]:
        columns, kinds = self._columns, self._kinds
        rows = []
        for page in pages:
            for item in page.items:
                get = item.fields.get
                row = [cell(get(column)) for column in columns]
                rows.append([cell(item.kind), *row] if kinds else row)
        return [_written(rows)] if rows else [], len(rows)


def cell(value: Any) -> str:
    """Return a value as text, before quoting: `None` as an empty cell, nested values as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        if value.startswith(FORMULA) and not _NUMBER.fullmatch(value):
            return f"'{value}"
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return msgspec.json.encode(value).decode()


def _written(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
