"""Items as rows of a table in PostgreSQL; several crawls may share it."""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg  # type: ignore[import-untyped]
import msgspec

from crawlfleet.adapters.sinks.tables.sink import (
    COLUMNS,
    CRAWLS,
    TableReceipt,
    check_sequence,
    fenced_off,
    read_receipt,
    rows_of,
    shown,
    unfit_table,
)
from crawlfleet.adapters.sinks.tables.view import (
    VIEWED,
    Column,
    fields_in,
    postgres_view,
    quoted,
    taken_name,
    view_of,
    with_fields,
)
from crawlfleet.crawl.fetch.dial import AddressRefused
from crawlfleet.errors import SinkUnusable
from crawlfleet.ports.sink import PageRecord

R = TypeVar("R")
Connection = Any
"""An asyncpg connection; the package has no types."""
Work = Callable[[Connection], Awaitable[R]]
Connect = Callable[[], Awaitable[Connection]]

CONNECT_S: Final = 5.0
COMMAND_S: Final = 60.0
MANNERS: Final[dict[str, Any]] = {
    "timeout": CONNECT_S,
    "command_timeout": COMMAND_S,
    "server_settings": {
        "application_name": "crawlfleet",
        "synchronous_commit": "on",
        # Names of fields stand in statements.
        "standard_conforming_strings": "on",
    },
}
"""Options of every connection."""
LONG_COMMAND_S: Final = 600.0
"""Timeout of the one pass through all rows that an earlier version has written."""
CLOSE_S: Final = 2.0
WAIT_OUT_S: Final = 10.0
"""Seconds for which a server may be away before the crawl stops; it can go on later."""
PAUSE_S: Final = 0.1
PASSING: Final = ("08", "40", "57P", "53300", "25006")
"""SQLSTATEs (or their beginnings) that another try on a new connection may not meet."""
PREPARING: Final = 7_226_104_881
"""Id of the lock for creating tables: two processes at once would fail."""
_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_TABLES: Final = (
    (
        f"CREATE TABLE IF NOT EXISTS {CRAWLS} (crawl text PRIMARY KEY, target text NOT NULL, "
        "sequence bigint NOT NULL, fence bigint NOT NULL, items bigint NOT NULL)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS {table} (crawl text NOT NULL, page bigint NOT NULL, "
        "position integer NOT NULL, sequence bigint NOT NULL, url text NOT NULL, "
        "at double precision NOT NULL, kind text NOT NULL, fields jsonb NOT NULL, "
        "PRIMARY KEY (crawl, page, position))"
    ),
    "CREATE INDEX IF NOT EXISTS {index} ON {table} (crawl, sequence)",
)
_VIEWED: Final = (
    f"CREATE TABLE IF NOT EXISTS {VIEWED} (target text NOT NULL, position integer NOT NULL, "
    "field text NOT NULL, name text NOT NULL, PRIMARY KEY (target, position))"
)
_SHOWN: Final = f"SELECT field, name FROM {VIEWED} WHERE target = $1 ORDER BY position"
_SHOW: Final = f"INSERT INTO {VIEWED} VALUES ($1, $2, $3, $4)"
_KIND: Final = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)"
_FIND: Final = f"SELECT sequence FROM {CRAWLS} WHERE crawl = $1 AND target = $2 FOR UPDATE"
_TAKE_OVER: Final = (
    f"UPDATE {CRAWLS} SET fence = fence + 1, sequence = $1, items = $2 WHERE crawl = $3 "
    "RETURNING fence"
)
_ADVANCE: Final = (
    f"UPDATE {CRAWLS} SET sequence = $1, items = $2 "
    "WHERE crawl = $3 AND fence = $4 AND sequence IN ($1 - 1, $1)"
)


class PostgresTable:
    """Implements `crawlfleet.ports.sink.Sink`. A stage is one transaction, made again on a new
    connection when the last one broke; it replaces itself where it was there already."""

    wants_bodies = False

    def __init__(
        self,
        url: str,
        table: str,
        *,
        fields: Sequence[str] = (),
        connect: Connect | None = None,
    ) -> None:
        """`fields` are those that items of the crawl can have; others get a column when they
        come. `connect` is another way there than straight on, such as past a guard."""
        self._fields = fields
        self._seen: set[str] = set()
        self._view = view_of(table)
        self._connect = connect or partial(_connect, url)
        self._place = shown(url)
        self._table = table
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._opened = False
        self._crawl = ""
        self._fence = self._sequence = self._items = 0
        names = {"table": quoted(table), "index": quoted(_index_name(table))}
        self._quoted = names["table"]
        self._tables = [text.format(**names) for text in _TABLES]
        self._columns = f"SELECT {', '.join(COLUMNS)} FROM {names['table']} LIMIT 0"
        self._remove = (
            f"DELETE FROM {names['table']} "
            "WHERE crawl = $1 AND (page = ANY($2::bigint[]) OR sequence >= $3)"
        )
        self._cut = f"DELETE FROM {names['table']} WHERE crawl = $1 AND sequence > $2"

    async def open(self, receipt: Any | None) -> None:
        read = None if receipt is None else read_receipt(receipt, self._table, self._place)
        async with self._turn:
            self._opened = False
            if read is None:
                crawl = uuid.uuid4().hex
                await self._in_transaction(lambda connection: self._begin(connection, crawl))
            else:
                await self._in_transaction(lambda connection: self._return_to(connection, read))
            self._opened = True

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        async with self._turn:
            if not self._opened:
                raise SinkUnusable(f"{self._place} is closed; open it first")
            if pages:
                following = self._sequence + 1
                rows = await asyncio.to_thread(rows_of, pages, self._crawl, following)
                storable = [row._replace(fields=_storable(row.fields)) for row in rows]
                ids = [page.id for page in pages]
                items = self._items + len(rows)
                new = [name for name in fields_in(pages) if name not in self._seen]

                async def write(connection: Connection) -> None:
                    done = await connection.execute(
                        _ADVANCE, following, items, self._crawl, self._fence
                    )
                    if done != "UPDATE 1":
                        raise fenced_off(self._place, self._table)
                    await connection.execute(self._remove, self._crawl, ids, following)
                    await connection.copy_records_to_table(
                        self._table, records=storable, columns=COLUMNS
                    )
                    if new:
                        await self._show(connection, new)

                await self._in_transaction(write)
                self._sequence, self._items = following, items
                self._seen.update(new)
            return msgspec.to_builtins(
                TableReceipt(
                    crawl=self._crawl, table=self._table, sequence=self._sequence, items=self._items
                )
            )

    async def finish(self) -> Mapping[str, Any]:
        async with self._turn:
            if self._opened:
                self._items = await self._in_transaction(self._count)
        await self.close()
        return {
            "path": self._place,
            "table": self._table,
            "view": self._view,
            "crawl": self._crawl,
            "items": self._items,
        }

    async def close(self) -> None:
        async with self._turn:
            self._opened = False
            await self._let_go()

    async def discard(self, crawl: str) -> None:
        """Remove all rows of a crawl; nothing when there are none."""

        async def remove(connection: Connection) -> None:
            for name, table in ((self._table, self._quoted), (CRAWLS, CRAWLS)):
                if await connection.fetchval("SELECT to_regclass($1)::text", quoted(name)):
                    await connection.execute(f"DELETE FROM {table} WHERE crawl = $1", crawl)

        async with self._turn:
            await self._in_transaction(remove)
            await self._let_go()

    async def _count(self, connection: Connection) -> int:
        """Count the rows of the crawl: pages that came again have replaced theirs."""
        count = f"SELECT count(*) FROM {self._quoted} WHERE crawl = $1"
        return int(await connection.fetchval(count, self._crawl))

    async def _begin(self, connection: Connection, crawl: str) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", PREPARING)
        for statement in self._tables[:-1]:
            await connection.execute(statement)
        await self._check_columns(connection)
        await connection.execute(self._tables[-1])
        await connection.execute(
            f"INSERT INTO {CRAWLS} VALUES ($1, $2, 0, 1, 0) ON CONFLICT DO NOTHING",
            crawl,
            self._table,
        )
        await self._show(connection, self._fields)
        self._crawl = crawl
        self._fence, self._sequence, self._items = 1, 0, 0

    async def _return_to(self, connection: Connection, receipt: TableReceipt) -> None:
        try:
            found = await connection.fetchval(_FIND, receipt.crawl, self._table)
        except asyncpg.UndefinedTableError:
            found = None
        check_sequence(found, receipt, self._place)
        await self._check_columns(connection)
        await connection.execute(self._cut, receipt.crawl, receipt.sequence)
        self._fence = await connection.fetchval(
            _TAKE_OVER, receipt.sequence, receipt.items, receipt.crawl
        )
        await self._show(connection, self._fields)
        self._crawl, self._sequence = receipt.crawl, receipt.sequence
        self._items = receipt.items

    async def _show(self, connection: Connection, fields: Sequence[str]) -> None:
        """Give these fields columns in the view, beside those that it has."""
        await connection.execute("SELECT pg_advisory_xact_lock($1)", PREPARING)
        await connection.execute(_VIEWED)
        known = [Column(*row) for row in await connection.fetch(_SHOWN, self._table)]
        found = await connection.fetchval(_KIND, quoted(self._view))
        if found is not None and (not known or found != "v"):
            raise taken_name(self._place, self._table)
        if not known:
            keys = f"SELECT DISTINCT jsonb_object_keys(fields) FROM {self._quoted}"
            found_keys = await connection.fetch(keys, timeout=LONG_COMMAND_S)
            fields = [*fields, *(key for (key,) in found_keys)]
        columns = with_fields(known, fields)
        new = [
            (self._table, position, *column)
            for position, column in enumerate(columns)
            if position >= len(known)
        ]
        await connection.executemany(_SHOW, new)
        if found is None or new:
            await connection.execute(postgres_view(self._table, columns))
        self._seen.update(fields)

    async def _check_columns(self, connection: Connection) -> None:
        try:
            await connection.execute(self._columns)
        except (asyncpg.UndefinedColumnError, asyncpg.UndefinedTableError) as error:
            raise unfit_table(self._place, self._table, str(error)) from error

    async def _in_transaction(self, work: Work[R]) -> R:
        """Do the work, again where a connection broke; the work must stand that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_OUT_S
        while True:
            try:
                connection = await self._connected()
                async with connection.transaction():
                    return await work(connection)
            except (SinkUnusable, AddressRefused):
                raise
            except BaseException as error:
                await self._let_go()
                if not isinstance(error, Exception):
                    raise
                if not _is_passing(error) or loop.time() >= deadline:
                    raise self._explained(error) from error
            await asyncio.sleep(PAUSE_S)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        return self._connection

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=CLOSE_S)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    def _explained(self, error: Exception) -> SinkUnusable:
        return SinkUnusable(
            f"{self._place} cannot be written ({type(error).__name__}: {error}); mend that and run "
            "the same crawl again: it goes on where it was"
        )


async def _connect(url: str) -> Connection:
    return await asyncpg.connect(url, **MANNERS)


def _index_name(table: str) -> str:
    """Within the 63 bytes of a name; of two tables with the same beginning, each has its own."""
    name = f"{table}_by_stage"
    return name if len(name.encode()) <= 63 else f"by_stage_{uuid.uuid5(uuid.NAMESPACE_URL, table)}"


def _storable(fields: str) -> str:
    """PostgreSQL's JSON has no NUL; it becomes the sign for what cannot be shown."""
    return _NUL.sub(r"\1�", fields) if "\\u0000" in fields else fields


def _is_passing(error: Exception) -> bool:
    if isinstance(error, asyncpg.PostgresError):
        return (getattr(error, "sqlstate", None) or "").startswith(PASSING)
    # The last is what the driver says when the server hangs up between two statements.
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)
