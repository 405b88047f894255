"""All rows of a SQLite store: read in one transaction beside the master, replaced without it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from sqlalchemy.dialects import sqlite

from crawlfleet.adapters.store.sql import archive, migrations
from crawlfleet.adapters.store.sql.archive import TABLES
from crawlfleet.adapters.store.sql.migrations import SCRIPTS
from crawlfleet.adapters.store.sqlite.errors import explain
from crawlfleet.adapters.store.sqlite.migrate import find_revision, prepare, refuse_unknown
from crawlfleet.errors import StoreUnavailable
from crawlfleet.ports.store_archive import Portion

BUSY_S: Final = 30.0


class SqliteArchive:
    """Implements `crawlfleet.ports.store_archive.Archive`; `lock` takes the store for this
    process."""

    def __init__(self, path: Path, lock: Callable[[Path], TextIO]) -> None:
        self._path = path
        self._lock = lock

    async def revision(self) -> str:
        return await asyncio.to_thread(self._revision)

    async def dump(self) -> AsyncIterator[Portion]:
        connection = await asyncio.to_thread(self._connect)
        try:
            # A transaction that reads sees one state of the store, and keeps nobody from writing.
            connection.execute("BEGIN")
            for name, columns, statement in archive.reading(sqlite.dialect()):
                cursor = await asyncio.to_thread(connection.execute, statement)
                yield Portion(name, columns, [])
                while rows := await asyncio.to_thread(cursor.fetchmany, archive.PORTION):
                    yield Portion(name, columns, rows)
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        finally:
            connection.close()

    async def load(self, portions: Iterable[Portion], *, force: bool, now: float) -> None:
        await asyncio.to_thread(self._load, portions, force, now)

    def _revision(self) -> str:
        with closing(self._connect()) as connection:
            found = find_revision(connection, self._path)
        if found is None:
            raise StoreUnavailable(f"{self._path} is empty: no master has ever used it")
        if found != migrations.HEAD:
            refuse_unknown(self._path, found, SCRIPTS, migrations.HEAD)
            raise StoreUnavailable(
                f"the store {self._path} has the schema {found} of an older version; start a "
                "master on it once, which brings it up to date"
            )
        return found

    def _connect(self) -> sqlite3.Connection:
        """Open the store read-only: such a connection cannot move the log into the file."""
        if not self._path.exists():
            raise StoreUnavailable(f"there is no store {self._path}; check --data and --config")
        try:
            return sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=BUSY_S,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise explain(error, self._path) from error

    def _load(self, portions: Iterable[Portion], force: bool, now: float) -> None:
        try:
            with self._lock(self._path):
                prepare(self._path)
                with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                    connection.execute("PRAGMA synchronous=FULL")
                    with _transaction(connection):
                        self._replace(connection, portions, force, now)
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        except OSError as error:
            raise StoreUnavailable(f"the store {self._path} cannot be written: {error}") from error

    def _replace(
        self, connection: sqlite3.Connection, portions: Iterable[Portion], force: bool, now: float
    ) -> None:
        used = [
            name
            for name in archive.used_tables()
            if connection.execute(archive.presence(name)).fetchone()
        ]
        if used and not force:
            raise archive.not_empty(str(self._path), used)
        ((epoch,),) = connection.execute(archive.EPOCH)
        for name in TABLES:
            connection.execute(f"DELETE FROM {name}")  # noqa: S608 (our own names)
        for portion in portions:
            _insert(connection, archive.check_portion(portion))
        ((restored,),) = connection.execute(archive.EPOCH)
        ((last_seq,),) = connection.execute(archive.LAST_SEQ)
        nodes = connection.execute(archive.CONNECTED_NODES).fetchall()
        connection.execute(archive.END_SESSIONS.format(now=now))
        connection.execute(archive.PART_NODES.format(now=now))
        connection.execute(archive.RAISE_EPOCH.format(epoch=max(epoch, restored) + 1))
        for row in archive.event_rows(nodes, last_seq, now):
            _insert(connection, Portion(archive.EVENTS, tuple(row), [[*row.values()]]))


def _insert(connection: sqlite3.Connection, portion: Portion) -> None:
    names = ", ".join(f'"{column}"' for column in portion.columns)
    places = ", ".join("?" * len(portion.columns))
    statement = f"INSERT INTO {portion.table} ({names}) VALUES ({places})"  # noqa: S608
    connection.executemany(statement, portion.rows)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
