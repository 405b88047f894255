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

from crawlfleet.adapters.store.acceptance import default_rows
from crawlfleet.adapters.store.database_file import LOG, DatabaseFile, read_whole
from crawlfleet.adapters.store.sql import maintenance
from crawlfleet.adapters.store.sql.maintenance import Operation
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Values
from crawlfleet.adapters.store.sql.store import Choose, SqlStore, decode
from crawlfleet.adapters.store.sqlite.archive import SqliteArchive
from crawlfleet.adapters.store.sqlite.counts import Counts
from crawlfleet.adapters.store.sqlite.errors import explain, is_damage
from crawlfleet.adapters.store.sqlite.migrate import prepare
from crawlfleet.adapters.store.sqlite.statements import STATEMENTS, bound
from crawlfleet.adapters.store.sqlite.writer import Job, Writer
from crawlfleet.adapters.threads import DriverThread
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.task import TaskStatus

S = TypeVar("S", bound=msgspec.Struct)
Query = Callable[[sqlite3.Connection], Any]

GROUP: Final = 10_000
"""Maximum number of requests in one transaction."""
CACHED_STATEMENTS: Final = 256
"""Number of prepared statements that a connection keeps: all that there are."""
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
"""Seconds to wait for a tool that has locked the file, such as the `sqlite3` shell."""
GONE: Final = (
    "Nothing is accepted. Move the file back that was there, and the master goes on by itself; or "
    "stop the master, and restore a backup with `crawlfleet restore`"
)
HALVED: Final = (
    "Nothing is accepted. Stop the master in order (SIGTERM), which saves what was in it, and "
    "start it again"
)
DAMAGED: Final = (
    "Nothing is accepted. Stop the master, move the file and those beside it with -wal and -shm "
    "away, keep them, and restore a backup with `crawlfleet restore`"
)
ROOM_BYTES: Final = 1 << 20
"""Free bytes below which a disk that was full still counts as full."""
MADE: Final = "made"
OVERWRITTEN: Final = "overwritten"
DAMAGED_MARK: Final = "damaged"
"""Values of a lock's mark: that its store exists, or what happened to it under a master."""


class _Files:
    """The lock and the two connections of an open store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _lock(path)
        try:
            _refuse_what_was_lost(path, self._lock)
            prepare(path)
            self._writing = _connect(path, "rw")
            for pragma in WRITER_PRAGMAS:
                self._writing.execute(f"PRAGMA {pragma}")
            self._writing.execute("SELECT count(*) FROM sqlite_master").fetchone()
            self.file = DatabaseFile(
                path, name=f"the store {path}", gone=GONE, halved=HALVED, damaged=DAMAGED
            )
            self.writer = Writer(self._writing, path, self.file)
            self._reading = _connect(path, "ro")
            # From its first reading on it keeps the writer from being the last, see `close`.
            self._reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            _mark(self._lock, MADE)
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
                if is_damage(error):
                    self.file.condemn(str(error))
                outcomes.append(explain(error, self._path))
        return outcomes

    def look(self) -> str:
        """Return why a commit now would not be kept, as far as can be seen without writing; "" if
        nothing is wrong.
        """
        try:
            self.file.look()
        except StoreUnavailable as error:
            return str(error)
        return ""

    def has_room(self) -> bool:
        """Return whether the disk has room for more than a few commits."""
        try:
            found = os.statvfs(self._path)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize >= ROOM_BYTES

    def close(self) -> None:
        """Close the connections, the writer's last: it moves the rest of the log into the file. If
        the file is damaged, close the reader's last: the file may be another by now.
        """
        if self.file.may_be_settled:
            self._reading.close()
            self._writing.close()
        else:
            self._writing.close()
            self._reading.close()
        self.file.close()
        if self.file.damage:
            _mark(self._lock, OVERWRITTEN if self.file.is_overwritten else DAMAGED_MARK)
        self._lock.close()


def _lock(path: Path) -> TextIO:
    """Take the store for this process alone; the system gives it back however the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = next(iter(lock.read().split()), "unknown")
        lock.close()
        raise StoreUnavailable(
            f"the store {path} is in use by the process {holder}: only one master may have it "
            "open. Stop that one, or set another `data_dir` for this one"
        ) from error
    _mark(lock, _marked(lock))
    return lock


def _mark(lock: TextIO, mark: str) -> None:
    """Leave a word about the store in its lock, beside the process that has it."""
    lock.seek(0)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n{mark}\n")
    lock.flush()


def _marked(lock: TextIO) -> str:
    """The word that was left last."""
    lock.seek(0)
    return next(iter(lock.read().split()[1:]), "")


def _refuse_what_was_lost(path: Path, lock: TextIO) -> None:
    """Raise `StoreUnavailable` rather than begin anew where a store was, or mix two of them."""
    mark, log = _marked(lock), path.with_name(path.name + LOG)
    has_log = log.exists() and log.stat().st_size > 0
    if not path.exists() and (mark or has_log):
        raise StoreUnavailable(
            f"the store {path} is gone: this folder had one, and it was removed or moved away. "
            f"Move it back, with {log.name}; or restore a backup with `crawlfleet restore`; "
            "`crawlfleet reset` begins anew"
        )
    if mark == OVERWRITTEN and has_log:
        raise StoreUnavailable(
            f"another database was written over the store {path} while a master had it open, and "
            f"{log} belongs to the former. To go on with what is there now, move {log.name} away; "
            f"else move {path.name} and {log.name} away, and restore a backup with "
            "`crawlfleet restore`"
        )
    if mark == DAMAGED_MARK and path.exists() and (why := read_whole(path)):
        raise StoreUnavailable(f"the store {path} is damaged: {why}. {DAMAGED}")


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
        self._writer: DriverThread[Job] | None = None
        self._reader: DriverThread[Query] | None = None

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
            self._writer = DriverThread("store-writer", self._files.writer.work, most=GROUP)
            self._reader = DriverThread("store-reader", self._files.read, most=1)
        await self.commit([default_rows(self._now())])

    async def close(self) -> None:
        files, writer, reader = self._files, self._writer, self._reader
        self._files = self._writer = self._reader = None
        if files and writer and reader:
            await reader.close()
            await writer.close()
            await asyncio.to_thread(files.close)

    async def verify(self) -> None:
        if self._files is None:
            raise StoreUnavailable(f"the store {self._path} is closed; open it first")
        if why := await asyncio.to_thread(self._files.look):
            raise StoreUnavailable(why)
        if trouble := self._files.writer.trouble:
            if not await asyncio.to_thread(self._files.has_room):
                # What is written to see whether it works may fit in where nothing else does.
                raise StoreUnavailable(trouble)
            await self._write(maintenance.rewrite())

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        counts = self._counts()
        return await super().count_tasks(project_id) if counts is None else counts.of(project_id)

    async def count_tasks_by_project(self) -> dict[str, dict[TaskStatus, int]]:
        counts = self._counts()
        return await super().count_tasks_by_project() if counts is None else counts.by_project()

    def archive(self) -> SqliteArchive:
        """Return the archive of all rows in bulk, whether or not the store is open."""
        return SqliteArchive(self._path, _lock)

    def _counts(self) -> Counts | None:
        """Return the counts that the writer keeps, or `None` if it does not know them."""
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
    """Fetch and decode rows in the reader's thread, so that the event loop goes on meanwhile."""
    return decode(mapping, _fetch(statement, runs, connection), choose)
