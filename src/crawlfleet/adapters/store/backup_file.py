"""A backup as a file: gzip over lines of JSON, which any store can be filled from.

    {"format": "crawlfleet backup", "format_version": 1, "schema_version": "0005", …}
    {"table": "projects", "columns": ["id", "name", …]}
    ["default", "default", …]
    {"end": "projects", "rows": 1, "sha256": "…"}
    …
    {"complete": true, "rows": {"projects": 1, …}}

The checksum of a table is over the lines of its rows. A number that JSON has no word for is an
object, such as `{"float": "inf"}`. A file gets its name when it is complete.
"""

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import Any, BinaryIO, Final

import msgspec

from crawlfleet.errors import BackupUnusable, ConfigError
from crawlfleet.ports.store_archive import Portion

FORMAT: Final = "crawlfleet backup"
FORMAT_VERSION: Final = 1
COMPRESSION: Final = 5
PORTION: Final = 1000

Progress = Callable[[str, int], None]
"""Called with each portion: the table, and its number of rows."""

_encode: Final = msgspec.json.Encoder().encode
_decode_row: Final = msgspec.json.Decoder(list[Any]).decode


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a backup."""

    format: str
    format_version: int
    schema_version: str
    made_at: float
    made_by: str


class _Begin(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    columns: tuple[str, ...]


class _End(msgspec.Struct, frozen=True, kw_only=True):
    end: str
    rows: int
    sha256: str


class _Complete(msgspec.Struct, frozen=True, kw_only=True):
    complete: bool
    rows: dict[str, int]


async def write_backup(
    path: Path, header: Header, portions: AsyncIterator[Portion], progress: Progress
) -> dict[str, int]:
    """Write all portions into a new private file; how many rows each table has.

    Leaves nothing behind when it fails. Of several that write under the same name, each has a file
    of its own until it is complete. Raises `ConfigError` as `destination` does.
    """
    counts: dict[str, int] = {}
    with (
        _replacing(destination(path)) as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=COMPRESSION, fileobj=file) as out,
    ):
        _put(out, header)
        table = _Table(out)
        async for portion in portions:
            if portion.table != table.name:
                table.end(counts)
                table = _Table(out, portion)
            table.add(portion.rows)
            progress(portion.table, len(portion.rows))
        table.end(counts)
        _put(out, _Complete(complete=True, rows=counts))
    return counts


def destination(path: Path) -> Path:
    """Return the file that a backup of this name becomes: the target of a symbolic link. Raises
    `ConfigError` for anything else than a regular file, such as a device or a pipe.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is there and is no regular file; name another file")
        found = path.resolve()
    except (OSError, RuntimeError) as error:  # links that lead in a circle are either
        raise ConfigError(f"{path} leads nowhere: {error}; name another file") from error
    if found.is_symlink():  # or, from Python 3.13 on, neither
        raise ConfigError(f"{path} leads nowhere: its links lead in a circle; name another file")
    return found


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new private file, which gets the name once it is complete and durable, or is removed."""
    descriptor, name = mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".partial")
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class _Table:
    """A table while it is being written; nothing when it has no name."""

    def __init__(self, out: gzip.GzipFile, first: Portion | None = None) -> None:
        self.name = first.table if first else ""
        self._out = out
        self._count = 0
        self._digest = hashlib.sha256()
        if first:
            _put(out, _Begin(table=first.table, columns=first.columns))

    def add(self, rows: list[list[Any]]) -> None:
        text = b"".join(_encode([*map(_spelt, row)]) + b"\n" for row in rows)
        self._digest.update(text)
        self._out.write(text)
        self._count += len(rows)

    def end(self, counts: dict[str, int]) -> None:
        if self.name:
            counts[self.name] = self._count
            digest = self._digest.hexdigest()
            _put(self._out, _End(end=self.name, rows=self._count, sha256=digest))


class Backup:
    """A file that was written by `write_backup`; everything raises `BackupUnusable`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def header(self) -> Header:
        """Return the header; raises an error if this program cannot read the backup."""
        with self._opened() as file:
            return self._header(file)

    def portions(self) -> Iterator[Portion]:
        """Yield the rows; raises after the last one if something is missing or was changed."""
        with self._opened() as file:
            self._header(file)
            counts: dict[str, int] = {}
            while line := self._line(file):
                if line.startswith(b'{"complete"'):
                    if self._understood(line, _Complete).rows != counts or self._line(file):
                        raise self._damaged("its counts are not those of its rows")
                    return
                yield from self._table(file, self._understood(line, _Begin), counts)
            raise self._damaged("its end is missing")

    def _table(
        self, file: gzip.GzipFile, begin: _Begin, counts: dict[str, int]
    ) -> Iterator[Portion]:
        digest, count = hashlib.sha256(), 0
        rows: list[list[Any]] = []
        yield Portion(begin.table, begin.columns, [])
        while (line := self._line(file)).startswith(b"["):
            digest.update(line)
            count += 1
            rows.append([_read(value) for value in self._row(line, len(begin.columns))])
            if len(rows) >= PORTION:
                yield Portion(begin.table, begin.columns, rows)
                rows = []
        if rows:
            yield Portion(begin.table, begin.columns, rows)
        end = self._understood(line, _End)
        if (end.end, end.rows, end.sha256) != (begin.table, count, digest.hexdigest()):
            raise self._damaged(f"the checksum of {begin.table} is wrong")
        counts[begin.table] = count

    def _header(self, file: gzip.GzipFile) -> Header:
        try:
            file.peek(1)
        except gzip.BadGzipFile as error:
            raise BackupUnusable(
                f"{self._path} is not a backup of crawlfleet ({error}); name another file"
            ) from error
        except (EOFError, zlib.error, OSError) as error:
            raise self._damaged(str(error)) from error
        line = self._line(file)
        if f'"format":"{FORMAT}"'.encode() not in line:
            raise BackupUnusable(f"{self._path} is not a backup of crawlfleet; name another file")
        header: Header = self._understood(line, Header)
        if header.format_version > FORMAT_VERSION:
            raise BackupUnusable(
                f"{self._path} has the format {header.format_version}, this program reads up to "
                f"{FORMAT_VERSION}: {header.made_by} wrote it. Install that version or a newer one"
            )
        return header

    def _opened(self) -> gzip.GzipFile:
        try:
            return gzip.GzipFile(self._path, "rb")
        except OSError as error:
            raise BackupUnusable(
                f"{self._path} cannot be read: {error.strerror}; name another file"
            ) from error

    def _line(self, file: gzip.GzipFile) -> bytes:
        try:
            return file.readline()
        except (EOFError, zlib.error, OSError) as error:
            raise self._damaged(str(error)) from error

    def _row(self, line: bytes, length: int) -> list[Any]:
        try:
            row = _decode_row(line)
        except msgspec.DecodeError as error:
            raise self._damaged(str(error)) from error
        if len(row) != length:
            raise self._damaged("a row has too many or too few values")
        return row

    def _understood(self, line: bytes, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, how: str) -> BackupUnusable:
        return BackupUnusable(
            f"{self._path} is damaged: {how}. Nothing was restored; use another backup"
        )


def _put(out: gzip.GzipFile, line: msgspec.Struct) -> None:
    out.write(_encode(line) + b"\n")


def _spelt(value: Any) -> Any:
    """Return the value as JSON spells it."""
    if value.__class__ is float and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _read(value: Any) -> Any:
    return float(value["float"]) if value.__class__ is dict else value
