"""Locks of a fleet with one master: a SQLite file of their own, beside the store's."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from crawlfleet.adapters.locks.sql import LockDialect, LockStatements, SqlLocks
from crawlfleet.adapters.threads import DriverThread
from crawlfleet.errors import ConfigError, LocksUnavailable, StoreUnavailable
from crawlfleet.steady_clock import SteadyClock

SQL: Final = LockStatements(LockDialect(now="now_s()", greatest="max", mark="?"))
GROUP: Final = 1000
BUSY_S: Final = 5.0


class SqliteLocks(SqlLocks):
    """Implements `crawlfleet.ports.locks.Locks` in one file. What waits is one transaction."""

    def __init__(self, *, path: str | Path, now: Callable[[], float] | None = None) -> None:
        super().__init__(SQL)
        self._path = Path(path)
        self._now = now or SteadyClock()
        self._connection: sqlite3.Connection | None = None
        self._lane: DriverThread[tuple[str, tuple[Any, ...]]] | None = None

    async def open(self) -> None:
        if self._lane is None:
            try:
                self._connection = await asyncio.to_thread(self._connect)
            except (sqlite3.Error, OSError) as error:
                raise self._unavailable(error) from error
            self._lane = DriverThread("locks", self._work, most=GROUP)

    async def close(self) -> None:
        lane, connection = self._lane, self._connection
        self._lane = self._connection = None
        if lane is not None and connection is not None:
            await lane.close()
            connection.close()

    async def _ask(self, statement: str, *arguments: Any) -> tuple[Any, ...] | None:
        if self._lane is None:
            raise LocksUnavailable(f"the locks in {self._path} are closed; open them first")
        try:
            row: tuple[Any, ...] | None = await self._lane.ask((statement, arguments))
        except (sqlite3.Error, StoreUnavailable) as error:
            raise self._unavailable(error) from error
        return row

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        connection.create_function("now_s", 0, self._now)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"):
            connection.execute(statement)
        connection.execute(SQL.create)
        connection.execute(SQL.sweep)
        return connection

    def _work(self, jobs: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        connection = self._connection
        assert connection is not None, "closed after its lane"
        connection.execute("BEGIN IMMEDIATE")
        try:
            # All rows: a statement that is left half way stays open.
            found = [connection.execute(text, values).fetchall() for text, values in jobs]
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return [rows[0] if rows else None for rows in found]

    def _unavailable(self, error: Exception) -> LocksUnavailable:
        return LocksUnavailable(
            f"the locks in {self._path} cannot be used: {error}; "
            "check that its folder exists, may be written and has room"
        )


def from_url(url: str) -> SqliteLocks:
    """The locks of a URL such as `sqlite:////absolute/path/file.db`."""
    path = unquote(url.removeprefix("sqlite://"))
    if not path.startswith("/") or path == "/":
        raise ConfigError(
            f"locks: {url!r} names no file; use sqlite:/// and the path of the file, "
            "such as sqlite:////var/lib/crawlfleet/locks.db"
        )
    return SqliteLocks(path=path.removeprefix("/"))
