"""All rows of a PostgreSQL store: read from one snapshot beside masters, replaced without them."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from crawlfleet.adapters.store.postgres.connections import Connection, Server, let_go
from crawlfleet.adapters.store.postgres.errors import explain
from crawlfleet.adapters.store.postgres.migrate import find_revision, prepare
from crawlfleet.adapters.store.postgres.statements import BEGIN, NUMBERED, TRY_LEAD
from crawlfleet.adapters.store.sql import archive, migrations
from crawlfleet.adapters.store.sql.archive import TABLES
from crawlfleet.adapters.store.sql.migrations import SCRIPTS
from crawlfleet.errors import Conflict, CrawlfleetError, StoreTooNew, StoreUnavailable
from crawlfleet.ports.store_archive import Portion

SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
OTHERS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crawlfleet' "
    "AND datname = current_database() AND pid <> pg_backend_pid()"
)


class PostgresArchive:
    """Implements `crawlfleet.ports.store_archive.Archive`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def revision(self) -> str:
        connection = await self._server.connect_for_long()
        try:
            found = await find_revision(connection)
        except Exception as error:
            raise explain(error, self._server.address) from error
        finally:
            await let_go(connection)
        if found is None:
            raise StoreUnavailable(
                f"there is no store in {self._server.address}; check the setting `store`"
            )
        if found != migrations.HEAD:
            raise self._other_revision(found)
        return found

    def _other_revision(self, found: str) -> CrawlfleetError:
        if migrations.is_known(found, SCRIPTS):
            return StoreUnavailable(
                f"the store {self._server.address} has the schema {found} of an older version; "
                "start a master on it once, which brings it up to date"
            )
        return StoreTooNew(
            f"the store {self._server.address} has the schema {found}, this program knows "
            f"revisions up to {migrations.HEAD}: use the version that wrote it"
        )

    async def dump(self) -> AsyncIterator[Portion]:
        connection = await self._server.connect_for_long()
        try:
            await connection.execute(SNAPSHOT)
            # Whole tables are wanted here, which the settings of a master keep the planner from.
            await connection.execute("SET LOCAL enable_seqscan = on")
            for name, columns, statement in archive.reading(NUMBERED):
                yield Portion(name, columns, [])
                cursor = await connection.cursor(statement)
                while rows := await cursor.fetch(archive.PORTION):
                    yield Portion(name, columns, [[*row.values()] for row in rows])
        except CrawlfleetError:
            raise
        except Exception as error:
            raise explain(error, self._server.address) from error
        finally:
            await let_go(connection)

    async def load(self, portions: Iterable[Portion], *, force: bool, now: float) -> None:
        connection = await self._server.connect_for_long()
        try:
            await prepare(connection, self._server.address)
            if not await connection.fetchval(TRY_LEAD):
                raise Conflict(
                    f"a master is at work in {self._server.address}; stop all of them first"
                )
            # Under the lock of all writers, and undone as a whole when the connection goes.
            await connection.execute(BEGIN)
            await self._replace(connection, portions, force, now)
            await connection.execute("COMMIT")
        except CrawlfleetError:
            raise
        except Exception as error:
            raise explain(error, self._server.address) from error
        finally:
            await let_go(connection)

    async def _replace(
        self, connection: Connection, portions: Iterable[Portion], force: bool, now: float
    ) -> None:
        used = [
            name
            for name in archive.used_tables()
            if await connection.fetchval(archive.presence(name))
        ]
        if not force:
            await self._refuse(connection, used)
        epoch = await connection.fetchval(archive.EPOCH)
        tables = ", ".join(TABLES)
        await connection.execute(f"TRUNCATE {tables}")
        for portion in portions:
            await _copy(connection, archive.check_portion(portion))
        restored = await connection.fetchval(archive.EPOCH)
        last_seq = await connection.fetchval(archive.LAST_SEQ)
        nodes: list[Any] = await connection.fetch(archive.CONNECTED_NODES)
        await connection.execute(archive.END_SESSIONS.format(now=now))
        await connection.execute(archive.PART_NODES.format(now=now))
        await connection.execute(archive.RAISE_EPOCH.format(epoch=max(epoch, restored) + 1))
        for row in archive.event_rows([tuple(node) for node in nodes], last_seq, now):
            await _copy(connection, Portion(archive.EVENTS, tuple(row), [[*row.values()]]))

    async def _refuse(self, connection: Connection, used: list[str]) -> None:
        if used:
            raise archive.not_empty(self._server.address, used)
        if await connection.fetchval(OTHERS):
            raise Conflict(
                f"a master is connected to {self._server.address}; stop it first, or say --force "
                "if it works in another schema of that database"
            )


async def _copy(connection: Connection, portion: Portion) -> None:
    if portion.rows:
        await connection.copy_records_to_table(
            portion.table, records=map(tuple, portion.rows), columns=list(portion.columns)
        )
