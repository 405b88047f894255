"""Every sink does what the suite demands."""

import csv
import gzip
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet import zstd
from crawlfleet.ports.sink import Sink
from crawlfleet.testing.sink_suite import CrashingSinkSuite, FoundItem, SinkHarness, SinkSuite
from tests.adapters import sink_makers
from tests.adapters.schemas import Schemas


class Files(SinkHarness):
    """Output in files; tells how they are made and read."""

    MAKE: Callable[[Path], Sink]
    GLOB = "items.*"

    def make_sink(self, folder: Path) -> Sink:
        return type(self).MAKE(folder)

    def content(self, path: Path) -> bytes:
        data = path.read_bytes()
        if path.suffix == ".gz":
            return gzip.decompress(data)
        if path.suffix == ".zst":
            return zstd.decompress(data)
        return data

    def contents(self, folder: Path) -> Iterator[bytes]:
        for path in sorted(folder.glob(self.GLOB)):
            yield self.content(path)

    def spoil(self, folder: Path) -> None:
        path = max(folder.glob(self.GLOB))
        data = path.read_bytes()
        path.write_bytes(b"x" * len(data) * 2)


class Lines(Files):
    def read(self, folder: Path) -> list[FoundItem]:
        rows = [json.loads(line) for data in self.contents(folder) for line in data.splitlines()]
        return [FoundItem(row["url"], row["title"]) for row in rows]


class Rows(Files):
    def read(self, folder: Path) -> list[FoundItem]:
        found = []
        for data in self.contents(folder):
            rows = csv.DictReader(io.StringIO(data.decode(), newline=""))
            found += [FoundItem(row["url"], row["title"]) for row in rows]
            assert tuple(rows.fieldnames or ()) == sink_makers.COLUMNS
        return found


class Archives(Files):
    WHOLE_PAGES = True
    GLOB = "pages*.warc*"

    def read(self, folder: Path) -> list[FoundItem]:
        found = []
        for path in sorted(folder.glob(self.GLOB)):
            with path.open("rb") as file:
                kinds = []
                for record in ArchiveIterator(file, check_digests="raise"):
                    kinds.append(record.rec_type)
                    body = record.content_stream().read()
                    if record.rec_type == "response":
                        url = record.rec_headers.get_header("WARC-Target-URI")
                        found.append(FoundItem(url, body))
                assert kinds[:1] == ["warcinfo"]
                assert kinds[1:] == ["response", "request"] * (len(kinds) // 2)
        return found


class PlainLines(Lines):
    MAKE = staticmethod(sink_makers.plain_lines)


class GzipLines(Lines):
    MAKE = staticmethod(sink_makers.gzip_lines)


class ZstdLines(Lines):
    MAKE = staticmethod(sink_makers.zstd_lines)


class RotatedLines(Lines):
    MAKE = staticmethod(sink_makers.rotated_lines)
    GLOB = "my.items-*.jsonl"


class PlainRows(Rows):
    MAKE = staticmethod(sink_makers.plain_rows)


class RotatedGzipRows(Rows):
    MAKE = staticmethod(sink_makers.rotated_gzip_rows)
    GLOB = "items-*.csv.gz"


class PlainArchive(Archives):
    MAKE = staticmethod(sink_makers.plain_archive)


class GzipArchive(Archives):
    MAKE = staticmethod(sink_makers.gzip_archive)


class RotatedArchive(Archives):
    MAKE = staticmethod(sink_makers.rotated_archive)


class SqliteRows(Files):
    MAKE = staticmethod(sink_makers.sqlite_rows)

    def read(self, folder: Path) -> list[FoundItem]:
        with closing(sqlite3.connect(folder / "shop.db")) as connection:
            rows = connection.execute('SELECT fields FROM "the ""items"""').fetchall()
        fields = [json.loads(row) for (row,) in rows]
        return [FoundItem(each["url"], each["title"]) for each in fields]

    def spoil(self, folder: Path) -> None:
        (folder / "shop.db").unlink()
        shutil.copy(__file__, folder / "other.txt")


class PostgresRows(Files):
    MAKE = staticmethod(sink_makers.postgres_rows)

    @pytest.fixture(autouse=True)
    def _on_server(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def make_sink(self, folder: Path) -> Sink:
        if not (folder / "url").exists():
            (folder / "url").write_text(f"{self._schemas.url(folder)}&table=The+%22Items%22")
        return super().make_sink(folder)

    def read(self, folder: Path) -> list[FoundItem]:
        rows = self._rows(folder, "fields")
        return [FoundItem(each["url"], each["title"]) for each in map(json.loads, rows)]

    def _rows(self, folder: Path, what: str) -> list[str]:
        table = f'{self._schemas.name(folder)}."The ""Items"""'
        return [row for (row,) in self._schemas.server.execute(f"SELECT {what} FROM {table}")]

    def spoil(self, folder: Path) -> None:
        name = self._schemas.name(folder)
        self._schemas.server.execute(f"UPDATE {name}.crawlfleet_output SET sequence = 0")

    def snapshot(self, folder: Path) -> Any:
        return self._rows(folder, "sequence"), self._schemas.server.execute(
            f"SELECT * FROM {self._schemas.name(folder)}.crawlfleet_output"
        )


class TestPlainLines(PlainLines, SinkSuite):
    pass


class TestGzipLines(GzipLines, SinkSuite):
    pass


class TestZstdLines(ZstdLines, SinkSuite):
    pass


class TestRotatedLines(RotatedLines, SinkSuite):
    pass


class TestPlainRows(PlainRows, SinkSuite):
    pass


class TestRotatedGzipRows(RotatedGzipRows, SinkSuite):
    pass


class TestPlainArchive(PlainArchive, SinkSuite):
    pass


class TestGzipArchive(GzipArchive, SinkSuite):
    pass


class TestRotatedArchive(RotatedArchive, SinkSuite):
    pass


class TestSqliteRows(SqliteRows, SinkSuite):
    pass


@pytest.mark.slow
class TestPostgresRows(PostgresRows, SinkSuite):
    pass


@pytest.mark.slow
class TestKilledLines(PlainLines, CrashingSinkSuite):
    pass


@pytest.mark.slow
class TestKilledZstdLines(ZstdLines, CrashingSinkSuite):
    pass


@pytest.mark.slow
class TestKilledRotatedRows(RotatedGzipRows, CrashingSinkSuite):
    pass


@pytest.mark.slow
class TestKilledArchive(RotatedArchive, CrashingSinkSuite):
    pass


@pytest.mark.slow
class TestKilledSqliteRows(SqliteRows, CrashingSinkSuite):
    pass


@pytest.mark.slow
class TestKilledPostgresRows(PostgresRows, CrashingSinkSuite):
    pass
