"""The embedded store: one SQLite file, one process, two threads.

The writer makes everything that waits one transaction, so that hundreds of callers share one
fsync; the reader has a connection of its own and never waits for it. Commits are durable
(`synchronous=FULL`) before they are answered. Only the writer moves the log into the file:
SQLite 3.40 may lose a commit when several connections of a busy store do that.
"""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar
from urllib.parse import unquote

import msgspec

from crawlfleet.backends.lane import Lane
from crawlfleet.backends.present import default_rows
from crawlfleet.backends.sql.operations import Operation
from crawlfleet.backends.sql.rows import RowMap
from crawlfleet.backends.sql.sqlite.archive import SqliteArchive
from crawlfleet.backends.sql.sqlite.counts import Counts
from crawlfleet.backends.sql.sqlite.preparation import prepare
from crawlfleet.backends.sql.sqlite.statements import STATEMENTS, bound
from crawlfleet.backends.sql.sqlite.trouble import explain
from crawlfleet.backends.sql.sqlite.writer import Job, Writer
from crawlfleet.backends.sql.statements import Rows, Values
from crawlfleet.backends.sql.store import Choose, SqlStore, decode
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.task import TaskStatus

S = TypeVar("S", bound=msgspec.Struct)
Query = Callable[[sqlite3.Connection], Any]

GROUP: Final = 10_000
"""At most so many requests in one transaction."""
CACHED_STATEMENTS: Final = 256
"""How many prepared statements a connection keeps: all that there are."""
WRITER_PRAGMAS: Final = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "wal_autocheckpoint=2000",
    "journal_size_limit=67108864",
    "cache_size=-32768",
    "secure_delete=OFF",
    "temp_store=MEMORY",
)
BUSY_S: Final = 5.0
"""How long to wait for a tool that has locked the file, such as the `sqlite3` shell."""


class _Files:
    """The lock and the two connections of an open store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _lock(path)
        try:
            prepare(path)
            self._writing = _connect(path, "rw")
            for pragma in WRITER_PRAGMAS:
                self._writing.execute(f"PRAGMA {pragma}")
            self.writer = Writer(self._writing, path)
            self._reading = _connect(path, "ro")
        except BaseException:
            self._lock.close()
            raise

    def read(self, queries: Sequence[Query]) -> list[Any]:
        """Answer each query; what the reader's lane calls."""
        outcomes: list[Any] = []
        for query in queries:
            try:
                outcomes.append(query(self._reading))
            except sqlite3.Error as error:
                outcomes.append(explain(error, self._path))
        return outcomes

    def close(self) -> None:
        """The writer goes last, since it moves what is left of the log into the file."""
        self._reading.close()
        self._writing.close()
        self._lock.close()


def _lock(path: Path) -> TextIO:
    """Take the store for this process alone; the system gives it back however the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise StoreUnavailable(
            f"the store {path} is in use by the process {holder}: only one master may have it "
            "open. Stop that one, or set another `data_dir` for this one"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )


def from_url(url: str) -> "SqliteStore":
    """The store of a URL such as `sqlite:////absolute/path/file.db`."""
    path = unquote(url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise ConfigError(
            f"store: {url!r} names no file; use sqlite:/// and the path of the file, "
            "such as sqlite:////var/lib/crawlfleet/crawlfleet.db"
        )
    return SqliteStore(path=path.removeprefix("/"))


class SqliteStore(SqlStore[str]):
    """Implements `crawlfleet.ports.store.Store` in one file, for one process at a time."""

    def __init__(self, *, path: str | Path, now: Callable[[], float] = time.time) -> None:
        super().__init__(STATEMENTS)
        self._path = Path(path)
        self._now = now
        self._files: _Files | None = None
        self._writer: Lane[Job] | None = None
        self._reader: Lane[Query] | None = None

    async def open(self) -> None:
        if self._files is None:
            try:
                self._files = await asyncio.to_thread(_Files, self._path)
            except sqlite3.Error as error:
                raise explain(error, self._path) from error
            except OSError as error:
                raise StoreUnavailable(
                    f"the store {self._path} cannot be opened: {error}; "
                    "check that its folder exists and may be written"
                ) from error
            self._writer = Lane("store-writer", self._files.writer.work, most=GROUP)
            self._reader = Lane("store-reader", self._files.read, most=1)
        await self.commit([default_rows(self._now())])

    async def close(self) -> None:
        files, writer, reader = self._files, self._writer, self._reader
        self._files = self._writer = self._reader = None
        if files and writer and reader:
            await reader.close()
            await writer.close()
            await asyncio.to_thread(files.close)

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        counts = self._counts()
        return await super().count_tasks(project_id) if counts is None else counts.of(project_id)

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        counts = self._counts()
        return await super().count_tasks_by_project() if counts is None else counts.by_project()

    def archive(self) -> SqliteArchive:
        """All of its rows in bulk, whether or not it is open."""
        return SqliteArchive(self._path, _lock)

    def _counts(self) -> Counts | None:
        """Those that the writer keeps, if it knows them."""
        counts = None if self._files is None else self._files.writer.counts
        return counts if counts is not None and counts.known else None

    async def _write(self, job: Job) -> Any:
        if self._writer is None:
            raise StoreUnavailable(f"the store {self._path} is closed; open it first")
        return await self._writer.ask(job)

    async def _archive(self, operation: Operation[str]) -> Any:
        return await self._write(operation)

    async def _read(self, query: Query) -> Any:
        if self._reader is None:
            raise StoreUnavailable(f"the store {self._path} is closed; open it first")
        return await self._reader.ask(query)

    async def _fetch(self, statement: str, values: Values) -> Rows:
        found: Rows = await self._read(partial(_fetch, statement, [values]))
        return found

    async def _decode(
        self,
        mapping: RowMap[S],
        statement: str,
        runs: Sequence[Values],
        choose: Choose | None = None,
    ) -> list[S]:
        found: list[S] = await self._read(partial(_decode, mapping, statement, runs, choose))
        return found


def _fetch(statement: str, runs: Sequence[Values], connection: sqlite3.Connection) -> list[Any]:
    found: list[Any] = []
    for values in runs:
        found += connection.execute(statement, bound(values)).fetchall()
    return found


def _decode(
    mapping: RowMap[S],
    statement: str,
    runs: Sequence[Values],
    choose: Choose | None,
    connection: sqlite3.Connection,
) -> list[S]:
    """In the reader's thread, so that the event loop goes on meanwhile."""
    return decode(mapping, _fetch(statement, runs, connection), choose)
