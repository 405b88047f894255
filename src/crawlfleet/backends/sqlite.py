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
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar
from urllib.parse import unquote

import msgspec

from crawlfleet.backends.lane import Lane
from crawlfleet.backends.present import default_rows
from crawlfleet.backends.sql import rows, statements
from crawlfleet.backends.sql.migrations import prepare
from crawlfleet.backends.sql.rows import RowMap
from crawlfleet.backends.sql.trouble import explain
from crawlfleet.backends.sql.writer import Changes, Operation, Writer, as_json
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, NodeStatus, Session
from crawlfleet.model.project import Cluster, Project
from crawlfleet.model.task import TERMINAL, Execution, Task, TaskStatus
from crawlfleet.ports.store import Change, Committed, TaskFilter

S = TypeVar("S", bound=msgspec.Struct)
Query = Callable[[sqlite3.Connection], Any]

PORTION: Final = 1000
GROUP: Final = 10_000
"""At most so many requests in one transaction."""
STATEMENTS: Final = 256
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
        cached_statements=STATEMENTS,
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


class SqliteStore:
    """Implements `crawlfleet.ports.store.Store` in one file, for one process at a time."""

    def __init__(self, *, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._path = Path(path)
        self._now = now
        self._files: _Files | None = None
        self._writer: Lane[Changes | Operation] | None = None
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

    async def lead(self, leader: str) -> int:
        epoch: int = await self._write(partial(Writer.lead, leader=leader))
        return epoch

    async def commit(self, changes: Sequence[Change]) -> Committed:
        committed: Committed = await self._write(changes)
        return committed

    async def project(self, id: str) -> Project | None:
        return await self._one(rows.PROJECT, id)

    async def clusters(self) -> list[Cluster]:
        return await self._all(rows.CLUSTER, statements.in_order(rows.CLUSTER.table))

    async def node(self, id: str) -> Node | None:
        return await self._one(rows.NODE, id)

    async def nodes(self, status: Sequence[NodeStatus] = ()) -> list[Node]:
        if not status:
            return await self._all(rows.NODE, statements.in_order(rows.NODE.table))
        return await self._all(rows.NODE, statements.NODES_IN, states=as_json(status))

    async def session(self, id: str) -> Session | None:
        return await self._one(rows.SESSION, id)

    async def live_sessions(self) -> list[Session]:
        return await self._all(rows.SESSION, statements.LIVE_SESSIONS)

    async def tasks(self, ids: Sequence[str]) -> list[Task]:
        statement = statements.by_ids(rows.TASK.table)
        found = await self._all(rows.TASK, statement, ids=as_json(ids))
        by_id = {task.id: task for task in found}
        return [by_id[wanted] for wanted in ids if wanted in by_id]

    async def find_tasks(
        self, filter: TaskFilter, *, after: str | None, limit: int, newest_first: bool = True
    ) -> list[Task]:
        if limit <= 0:
            return []
        query = partial(_find_tasks, filter, after, limit, newest_first)
        found: list[Task] = await self._read(query)
        return found

    async def count_tasks(self, project_id: str | None = None) -> dict[TaskStatus, int]:
        statement = statements.count_tasks(project_id is not None)
        values = {} if project_id is None else {"project_id": project_id}
        return {
            TaskStatus(status): count
            for status, count in await self._read(partial(_fetch, statement, values))
        }

    async def unfinished_tasks(self) -> AsyncIterator[list[Task]]:
        ((found,),) = await self._read(partial(_fetch, statements.UNFINISHED_IDS, {}))
        ids = sorted(msgspec.json.decode(found, type=list[str]))
        for start in range(0, len(ids), PORTION):
            tasks = await self.tasks(ids[start : start + PORTION])
            portion = [task for task in tasks if task.status not in TERMINAL]
            if portion:
                yield portion

    async def executions(self, task_id: str) -> list[Execution]:
        return await self._all(rows.EXECUTION, statements.ATTEMPTS, task_id=task_id)

    async def live_executions(self) -> list[Execution]:
        return await self._all(rows.EXECUTION, statements.LIVE_EXECUTIONS)

    async def keys(self) -> list[ApiKey]:
        return await self._all(rows.KEY, statements.in_order(rows.KEY.table))

    async def events(self, *, after: int, limit: int, subject: str | None = None) -> list[Event]:
        values: dict[str, Any] = {"after": after, "limit": max(limit, 0)}
        if subject is not None:
            values["subject"] = subject
        return await self._all(rows.EVENT, statements.find_events(subject is not None), **values)

    async def cursor(self, consumer: str) -> int:
        found = await self._read(partial(_fetch, statements.CURSOR, {"consumer": consumer}))
        return int(found[0][0]) if found else 0

    async def move_cursor(self, consumer: str, seq: int) -> None:
        await self._write(partial(Writer.move_cursor, consumer=consumer, seq=seq))

    async def remove_finished(self, *, before: float, limit: int) -> int:
        gone: int = await self._write(partial(Writer.remove_finished, before=before, limit=limit))
        return gone

    async def remove_events(self, *, before: float, limit: int) -> int:
        gone: int = await self._write(partial(Writer.remove_events, before=before, limit=limit))
        return gone

    async def _write(self, job: Changes | Operation) -> Any:
        if self._writer is None:
            raise StoreUnavailable(f"the store {self._path} is closed; open it first")
        return await self._writer.ask(job)

    async def _read(self, query: Query) -> Any:
        if self._reader is None:
            raise StoreUnavailable(f"the store {self._path} is closed; open it first")
        return await self._reader.ask(query)

    async def _all(self, mapping: RowMap[S], statement: str, **values: Any) -> list[S]:
        found: list[S] = await self._read(partial(_decode, mapping, statement, values))
        return found

    async def _one(self, mapping: RowMap[S], id: str) -> S | None:
        found = await self._all(mapping, statements.by_ids(mapping.table), ids=as_json([id]))
        return found[0] if found else None


def _fetch(statement: str, values: dict[str, Any], connection: sqlite3.Connection) -> list[Any]:
    return connection.execute(statement, values).fetchall()


def _decode(
    mapping: RowMap[S], statement: str, values: dict[str, Any], connection: sqlite3.Connection
) -> list[S]:
    return mapping.decode_all(_fetch(statement, values, connection))


def _find_tasks(
    filter: TaskFilter,
    after: str | None,
    limit: int,
    newest_first: bool,
    connection: sqlite3.Connection,
) -> list[Task]:
    """One query for each state, since within a state the index is in order; then the best."""
    values = {name: getattr(filter, name) for name in statements.FILTERS if name != "status"}
    values = {name: value for name, value in values.items() if value is not None}
    given = tuple(
        name
        for name in statements.FILTERS
        if name in values or (name == "status" and filter.status)
    )
    statement = statements.find_tasks(given, filter.dead, after is not None, newest_first)
    values.update(limit=limit, after=after)
    found: list[Any] = []
    for status in sorted({state.value for state in filter.status}) or [""]:
        found += _fetch(statement, {**values, "status": status}, connection)
    found.sort(key=itemgetter(0), reverse=newest_first)
    return rows.TASK.decode_all(found[:limit])
