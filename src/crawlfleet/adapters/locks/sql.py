"""Locks in a SQL table, of SQLite or PostgreSQL: the statements, and what both do alike.

The table is not one of the store's: it has nothing that is worth a backup, and locks may be kept
elsewhere than tasks. Each statement is atomic by itself, and may be repeated.
"""

from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple

from crawlfleet.model.wire.locks import LockHold, LockOccupied

KEPT_S: Final = 7 * 86_400
"""Seconds after which the row of an unused lock is removed."""


class LockDialect(NamedTuple):
    now: str
    """Expression for seconds since 1970, by the database's clock."""
    greatest: str
    mark: str
    """Character before the number of an argument."""


class LockStatements:
    """Numbered arguments: name, holder, then the lease or the token."""

    def __init__(self, dialect: LockDialect) -> None:
        now = dialect.now
        self.create = """
            CREATE TABLE IF NOT EXISTS crawler_locks (
                name TEXT PRIMARY KEY,
                holder TEXT NOT NULL,
                token BIGINT NOT NULL,
                lease_s DOUBLE PRECISION NOT NULL,
                expires_at DOUBLE PRECISION NOT NULL
            )"""
        self.sweep = f"""
            DELETE FROM crawler_locks
            WHERE token < ({now} - {KEPT_S}) * 1000000.0 AND expires_at <= {now}"""
        take = f"""
            INSERT INTO crawler_locks AS held (name, holder, token, lease_s, expires_at)
            VALUES ($1, $2, CAST({now} * 1000000.0 AS BIGINT), $3, {now} + $3)
            ON CONFLICT (name) DO UPDATE SET
                token = CASE
                    WHEN held.holder = excluded.holder AND held.expires_at > {now} THEN held.token
                    ELSE {dialect.greatest}(held.token + 1, excluded.token)
                END,
                holder = excluded.holder,
                lease_s = excluded.lease_s,
                expires_at = excluded.expires_at
            WHERE held.holder = excluded.holder OR held.expires_at <= {now}
            RETURNING token"""
        renew = f"""
            UPDATE crawler_locks SET expires_at = {now} + lease_s
            WHERE name = $1 AND holder = $2 AND token = $3 AND expires_at > {now}
            RETURNING token"""
        release = f"""
            UPDATE crawler_locks SET expires_at = 0
            WHERE name = $1 AND holder = $2 AND token = $3 AND expires_at > {now}
            RETURNING token"""
        # No lease is longer than itself, unless the clock was set back: then it begins anew, or
        # the lock of a dead holder would stay for as long as the clock was set back.
        shorten = f"""
            UPDATE crawler_locks SET expires_at = {now} + lease_s
            WHERE name = $1 AND expires_at > {now} + lease_s + 0.01
            RETURNING token"""
        look = f"""
            SELECT holder, token, expires_at - {now} FROM crawler_locks
            WHERE name = $1 AND expires_at > {now}"""
        self.take, self.renew, self.release, self.shorten, self.look = (
            text.replace("$", dialect.mark) for text in (take, renew, release, shorten, look)
        )


class SqlLocks(ABC):
    """Locks by SQL statements; a subclass carries the statements out."""

    def __init__(self, statements: LockStatements) -> None:
        self._sql = statements

    @abstractmethod
    async def _ask(self, statement: str, *arguments: Any) -> Any:
        """The row that a statement gives, in a transaction of its own, or `None`."""

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        while True:
            if taken := await self._ask(self._sql.take, name, holder, lease_s):
                return LockHold(name=name, holder=holder, token=taken[0], lease_s=lease_s)
            await self._ask(self._sql.shorten, name)
            if (found := await self.look(name)) is not None:
                return found

    async def renew(self, hold: LockHold) -> bool:
        return await self._ask(self._sql.renew, hold.name, hold.holder, hold.token) is not None

    async def release(self, hold: LockHold) -> bool:
        return await self._ask(self._sql.release, hold.name, hold.holder, hold.token) is not None

    async def look(self, name: str) -> LockOccupied | None:
        found = await self._ask(self._sql.look, name)
        if found is None:
            return None
        return LockOccupied(holder=found[0], token=found[1], free_in_s=found[2])
