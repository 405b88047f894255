"""Items as rows of a table in a SQLite file; the file may have other tables."""

import asyncio
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from crawlfleet.adapters.sinks.folder import SinkFolder
from crawlfleet.adapters.sinks.rotating_file import unwritable
from crawlfleet.adapters.sinks.tables.sink import (
    COLUMNS,
    CRAWLS,
    TableReceipt,
    check_sequence,
    fenced_off,
    read_receipt,
    rows_of,
    unfit_table,
)
from crawlfleet.adapters.sinks.tables.view import (
    VIEWED,
    Column,
    fields_in,
    quoted,
    sqlite_view,
    taken_name,
    view_of,
    with_fields,
)
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.own_files import is_own
from crawlfleet.ports.sink import PageRecord

BUSY_S: Final = 10.0
"""Seconds to wait for a program that has locked the file."""
REMEDIES: Final = {
    "SQLITE_FULL": "its disk is full; free some space",
    "SQLITE_BUSY": "another program has locked it; close that program",
    "SQLITE_READONLY": "it may not be written; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that its folder exists and may be written",
    "SQLITE_NOTADB": "the file is not a SQLite database; name another one",
    "SQLITE_IOERR": "its disk does not read or write; look into the system's log",
}
_TABLES: Final = (
    (
        f"CREATE TABLE IF NOT EXISTS {CRAWLS} (crawl TEXT PRIMARY KEY, target TEXT NOT NULL, "
        "sequence INTEGER NOT NULL, fence INTEGER NOT NULL, items INTEGER NOT NULL)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS {table} (crawl TEXT NOT NULL, page INTEGER NOT NULL, "
        "position INTEGER NOT NULL, sequence INTEGER NOT NULL, url TEXT NOT NULL, "
        "at REAL NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL, "
        "PRIMARY KEY (crawl, page, position))"
    ),
    "CREATE INDEX IF NOT EXISTS {index} ON {table} (crawl, sequence)",
)
_VIEWED: Final = (
    f"CREATE TABLE IF NOT EXISTS {VIEWED} (target TEXT NOT NULL, position INTEGER NOT NULL, "
    "field TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (target, position))"
)
_SHOWN: Final = (
    f"SELECT field, name FROM {VIEWED} WHERE target = ? COLLATE NOCASE ORDER BY position"
)
_SHOW: Final = f"INSERT INTO {VIEWED} VALUES (?, ?, ?, ?)"
_NAMED: Final = "SELECT type FROM sqlite_master WHERE name = ? COLLATE NOCASE"
_FIND: Final = f"SELECT sequence FROM {CRAWLS} WHERE crawl = ? AND target = ?"
_TAKE_OVER: Final = (
    f"UPDATE {CRAWLS} SET fence = fence + 1, sequence = ?, items = ? WHERE crawl = ? "
    "RETURNING fence"
)
_ADVANCE: Final = (
    f"UPDATE {CRAWLS} SET sequence = :next, items = :items "
    "WHERE crawl = :crawl AND fence = :fence AND sequence IN (:next - 1, :next)"
)


class SqliteTable:
    """Implements `crawlfleet.ports.sink.Sink`. A stage is one transaction."""

    wants_bodies = False

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        fields: Sequence[str] = (),
        below: Path | None = None,
    ) -> None:
        """`fields` are those that items of the crawl can have; others get a column when they
        come. Of a task's file, `below` is the folder of the node that it may not leave."""
        self._fields = fields
        self._seen: set[str] = set()
        self._view = view_of(table)
        self._path = Path(path)
        self._below = below
        self._table = table
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._crawl = ""
        self._fence = self._sequence = self._items = 0
        names = {"table": quoted(table), "index": quoted(f"{table}_by_stage")}
        self._quoted = names["table"]
        self._tables = [text.format(**names) for text in _TABLES]
        self._columns = f"SELECT {', '.join(COLUMNS)} FROM {names['table']} LIMIT 0"
        marks = ", ".join("?" * len(COLUMNS))
        self._insert = f"INSERT INTO {names['table']} ({', '.join(COLUMNS)}) VALUES ({marks})"
        self._remove_page = f"DELETE FROM {names['table']} WHERE crawl = ? AND page = ?"
        self._cut = f"DELETE FROM {names['table']} WHERE crawl = ? AND sequence > ?"

    async def open(self, receipt: Any | None) -> None:
        read = None if receipt is None else read_receipt(receipt, self._table, str(self._path))
        await asyncio.to_thread(self._do, lambda: self._open(read))

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        return msgspec.to_builtins(await asyncio.to_thread(self._do, lambda: self._stage(pages)))

    async def finish(self) -> Mapping[str, Any]:
        await asyncio.to_thread(self._do, self._count)
        await self.close()
        return {
            "path": str(self._path),
            "table": self._table,
            "view": self._view,
            "crawl": self._crawl,
            "items": self._items,
        }

    async def close(self) -> None:
        await asyncio.to_thread(self._do, self._close)

    async def discard(self, crawl: str) -> None:
        """Remove all rows of a crawl; nothing when there are none."""
        if self._path.exists():
            await asyncio.to_thread(self._do, lambda: self._discard(crawl))

    def _discard(self, crawl: str) -> None:
        with closing(self._connected()) as connection, self._transaction(connection):
            for table in (self._quoted, CRAWLS):
                try:
                    connection.execute(f"DELETE FROM {table} WHERE crawl = ?", (crawl,))
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):
                        raise

    def _count(self) -> None:
        """Count the rows of the crawl: pages that came again have replaced theirs."""
        if self._connection is not None:
            count = f"SELECT count(*) FROM {self._quoted} WHERE crawl = ?"
            (self._items,) = self._connection.execute(count, (self._crawl,)).fetchone()

    def _do(self, work: Callable[[], Any]) -> Any:
        with self._turn:
            try:
                return work()
            except sqlite3.Error as error:
                raise self._explained(error) from error
            except OSError as error:
                raise unwritable(self._path, error) from error

    def _open(self, receipt: TableReceipt | None) -> None:
        self._close()
        if receipt is not None and not self._path.exists():
            check_sequence(None, receipt, str(self._path))
        # A new connection is cheap, and free of whatever befell the last one.
        self._connection = connection = self._connected()
        connection.execute("PRAGMA synchronous = FULL")
        with self._transaction(connection):
            if receipt is None:
                self._begin(connection)
            else:
                self._return_to(connection, receipt)
            self._show(connection, self._fields)

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file, which is made where there is none; raises `SinkUnusable` for a
        link, and before anything is written for a file that crawlfleet keeps for itself."""
        with SinkFolder(self._path.parent, below=self._below) as folder:
            if folder.found(self._path.name) is None:
                # An empty file is a database. SQLite would follow a link that was put there now.
                with suppress(FileExistsError):
                    os.close(folder.open(self._path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            connection = sqlite3.connect(
                f"file:{quote(str(self._path.absolute()))}?mode=rw",
                timeout=BUSY_S,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            try:
                found = folder.found(self._path.name)
                if found is None or not os.path.samestat(found, self._path.stat()):
                    raise SinkUnusable(f"{self._path} was put elsewhere just now; try again")
                self._check_foreign(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _check_foreign(self, connection: sqlite3.Connection) -> None:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if is_own(mark, frozenset(name for (name,) in names)):
            raise SinkUnusable(
                f"{self._path} is a file that crawlfleet keeps for itself; name another one"
            )

    def _begin(self, connection: sqlite3.Connection) -> None:
        for statement in self._tables[:-1]:
            connection.execute(statement)
        try:
            connection.execute(self._columns)
        except sqlite3.OperationalError as error:
            raise unfit_table(str(self._path), self._table, str(error)) from error
        connection.execute(self._tables[-1])
        self._crawl = uuid.uuid4().hex
        self._fence, self._sequence, self._items = 1, 0, 0
        connection.execute(
            f"INSERT INTO {CRAWLS} VALUES (?, ?, 0, 1, 0)", (self._crawl, self._table)
        )

    def _return_to(self, connection: sqlite3.Connection, receipt: TableReceipt) -> None:
        try:
            found = connection.execute(_FIND, (receipt.crawl, self._table)).fetchone()
            connection.execute(self._columns)
        except sqlite3.OperationalError as error:
            if "no such" not in str(error):
                raise
            found = None
        check_sequence(found and found[0], receipt, str(self._path))
        connection.execute(self._cut, (receipt.crawl, receipt.sequence))
        ((self._fence,),) = connection.execute(
            _TAKE_OVER, (receipt.sequence, receipt.items, receipt.crawl)
        ).fetchall()
        self._crawl, self._sequence = receipt.crawl, receipt.sequence
        self._items = receipt.items

    def _stage(self, pages: Sequence[PageRecord]) -> TableReceipt:
        connection = self._connection
        if connection is None:
            raise SinkUnusable(f"{self._path} is closed; open it first")
        if pages:
            following = self._sequence + 1
            rows = rows_of(pages, self._crawl, following)
            items = self._items + len(rows)
            with self._transaction(connection):
                self._advance(connection, following, items)
                connection.executemany(self._remove_page, [(self._crawl, p.id) for p in pages])
                connection.executemany(self._insert, rows)
                if new := [name for name in fields_in(pages) if name not in self._seen]:
                    self._show(connection, new)
            self._sequence, self._items = following, items
        return TableReceipt(
            crawl=self._crawl, table=self._table, sequence=self._sequence, items=self._items
        )

    def _advance(self, connection: sqlite3.Connection, following: int, items: int) -> None:
        values = {
            "next": following,
            "items": items,
            "crawl": self._crawl,
            "fence": self._fence,
        }
        if connection.execute(_ADVANCE, values).rowcount != 1:
            raise fenced_off(str(self._path), self._table)

    def _show(self, connection: sqlite3.Connection, fields: Sequence[str]) -> None:
        """Give these fields columns in the view, beside those that it has."""
        connection.execute(_VIEWED)
        known = [Column(*row) for row in connection.execute(_SHOWN, (self._table,))]
        found = connection.execute(_NAMED, (self._view,)).fetchone()
        if found is not None and (not known or found != ("view",)):
            raise taken_name(str(self._path), self._table)
        if not known:
            keys = f"SELECT DISTINCT key FROM {self._quoted}, json_each(fields)"
            fields = [*fields, *(key for (key,) in connection.execute(keys))]
        columns = with_fields(known, fields)
        new = [
            (self._table, position, *column)
            for position, column in enumerate(columns)
            if position >= len(known)
        ]
        connection.executemany(_SHOW, new)
        if found is None or new:
            connection.execute(f"DROP VIEW IF EXISTS {quoted(self._view)}")
            connection.execute(sqlite_view(self._table, columns))
        self._seen.update(fields)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _explained(self, error: sqlite3.Error) -> SinkUnusable:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        remedy = next(
            (text for known, text in REMEDIES.items() if name.startswith(known)),
            "look at what it says",
        )
        return SinkUnusable(
            f"{self._path} cannot be written: {remedy} ({name}: {error}); then run the same crawl "
            "again: it goes on where it was"
        )
