"""Locks of a fleet with several masters: a table in their PostgreSQL.

Leases go by the server's clock, which is one for all. A lock of a session would be gone with its
connection, however alive the holder is, and has no number that a guard could compare.
"""

from typing import Any, Final

from crawlfleet.adapters.locks.sql import LockDialect, LockStatements, SqlLocks
from crawlfleet.adapters.store.postgres.connections import Connection, Readers, Server
from crawlfleet.errors import LocksUnavailable, StoreUnavailable

SQL: Final = LockStatements(
    LockDialect(
        now="extract(epoch FROM clock_timestamp())::float8",
        greatest="greatest",
        mark="$",
    )
)
ALONE: Final = "SELECT pg_advisory_xact_lock(hashtext('crawler_locks'))"
"""Statement that lets one process at a time create tables: two at once may fail despite IF NOT
EXISTS.
"""


class PostgresLocks(SqlLocks):
    """Implements `crawlfleet.ports.locks.Locks` in one table of one database."""

    def __init__(self, *, url: str) -> None:
        super().__init__(SQL)
        self._server = Server(url)
        self._sessions: Readers | None = None

    async def open(self) -> None:
        if self._sessions is not None:
            return
        sessions = Readers(self._server, writes=True)
        await sessions.open()

        async def prepare(connection: Connection) -> None:
            async with connection.transaction():
                await connection.execute(ALONE)
                await connection.execute(SQL.create)
                await connection.execute(SQL.sweep)

        try:
            await sessions.ask(prepare)
        except StoreUnavailable as error:
            await sessions.close()
            raise LocksUnavailable(str(error)) from error
        self._sessions = sessions

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, None
        if sessions is not None:
            await sessions.close()

    async def _ask(self, statement: str, *arguments: Any) -> Any:
        if self._sessions is None:
            raise LocksUnavailable(f"the locks in {self._server.address} are closed; open them")
        try:
            return await self._sessions.ask(lambda each: each.fetchrow(statement, *arguments))
        except StoreUnavailable as error:
            raise LocksUnavailable(str(error)) from error


def from_url(url: str) -> PostgresLocks:
    """The locks of a URL such as `postgresql://user:password@host:5432/database`."""
    return PostgresLocks(url=url)
