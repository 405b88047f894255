"""Creates the schema in a database, or brings the one that is there up to date.

In one transaction under the lock of all writers: masters that start at once do it once, and the
commits of those that are at work wait. A schema that a newer program wrote is left alone.
"""

import asyncio
from pathlib import Path
from typing import Final

import asyncpg  # type: ignore[import-untyped]

from crawlfleet.adapters.store.postgres.connections import Connection
from crawlfleet.adapters.store.postgres.statements import BEGIN, NUMBERED
from crawlfleet.adapters.store.sql import migrations
from crawlfleet.adapters.store.sql.migrations import HEAD, SCRIPTS
from crawlfleet.errors import ConfigError, StoreTooNew, StoreUnavailable

VERSION_TABLE: Final = "crawler_schema_version"
"""Not Alembic's usual name, which another program in the same database may use."""


async def prepare(
    connection: Connection, address: str, *, scripts: Path = SCRIPTS, head: str = HEAD
) -> None:
    """Create the schema, or migrate an existing one. Raises `StoreTooNew`, `ConfigError` for a
    database that cannot hold every text, `StoreUnavailable` when a migration fails, or the driver's
    errors.
    """
    encoding = await connection.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        raise ConfigError(
            f"store: the database {address} has the encoding {encoding}, which cannot hold every "
            "text; create one with `createdb --encoding=UTF8 --template=template0`"
        )
    if await find_revision(connection) == head:
        return
    await connection.execute(BEGIN)
    found = await find_revision(connection)
    if found is None:
        await connection.execute(";".join(migrations.creation(NUMBERED, VERSION_TABLE, head)))
    elif found != head:
        if not await asyncio.to_thread(migrations.is_known, found, scripts):
            raise StoreTooNew(
                f"the store {address} has the schema revision {found}, this program knows "
                f"revisions up to {head}: a newer crawlfleet wrote it. Install that version "
                "again, or restore a dump from before its migration"
            )
        await _migrate(connection, address, found, scripts, head)
    await connection.execute("COMMIT")


async def find_revision(connection: Connection) -> str | None:
    """The revision of the store, or `None` when there is none in this schema."""
    # By a query: `to_regclass` remembers within a transaction that there was none.
    there = await connection.fetchval(
        "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1",
        VERSION_TABLE,
    )
    if not there:
        return None
    return str(await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608


async def _migrate(
    connection: Connection, address: str, found: str, scripts: Path, head: str
) -> None:
    steps = await asyncio.to_thread(
        migrations.as_sql, "postgresql", VERSION_TABLE, found=found, scripts=scripts, head=head
    )
    try:
        await connection.execute(steps)
    except asyncpg.PostgresError as error:
        raise StoreUnavailable(
            f"the store {address} could not be migrated to the revision {head} and is as it was: "
            f"{error}. Go on with the version that wrote it, and report this"
        ) from error
