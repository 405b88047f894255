"""Older PostgreSQL stores are brought up to date, also under load; newer ones are left alone."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from crawlfleet.adapters.store.postgres.connections import Connection, Server
from crawlfleet.adapters.store.postgres.migrate import VERSION_TABLE, prepare
from crawlfleet.adapters.store.postgres.store import PostgresStore
from crawlfleet.adapters.store.sql import migrations
from crawlfleet.adapters.store.sql.migrations import HEAD, SCRIPTS
from crawlfleet.errors import StoreTooNew, StoreUnavailable
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.harness import must
from crawlfleet.testing.store_suite.samples import make_event, make_task
from tests.adapters.store.sqlite.test_migrations import tomorrow
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2
"""
INDEXES = """
SELECT tablename, replace(indexdef, schemaname || '.', '')
FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1, 2
"""


async def schema_of(connection: Connection) -> list[tuple[str, ...]]:
    return [tuple(row) for sql in (COLUMNS, INDEXES) for row in await connection.fetch(sql)]


async def revision_of(connection: Connection) -> str:
    return await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}")


async def upgrade(url: str, scripts: Path, head: str = "9999") -> None:
    """What a master does that knows the revisions in `scripts`."""
    server = Server(url)
    connection = await server.connect()
    try:
        await prepare(connection, server.address, scripts=scripts, head=head)
    finally:
        await connection.close()


async def make_old_store(url: str) -> None:
    store = PostgresStore(url=url)
    await store.open()
    await must(store, Change(tasks=(make_task(),)))
    await store.close()


def test_migrated_schema_equals_the_created_one(
    postgres: PostgresServer, url: str, schema: str
) -> None:
    postgres.execute(f"CREATE SCHEMA {schema}_migrated")

    async def scenario() -> None:
        await make_old_store(url)
        created = await asyncpg.connect(url)
        migrated = await asyncpg.connect(f"{url}_migrated")
        await migrated.execute(
            migrations.as_sql("postgresql", VERSION_TABLE, found=None, scripts=SCRIPTS, head=HEAD)
        )
        assert await schema_of(created) == await schema_of(migrated)
        assert await revision_of(created) == await revision_of(migrated) == HEAD
        await created.close()
        await migrated.close()

    asyncio.run(scenario())


def test_older_store_is_migrated_once_by_masters_that_start_at_once(
    url: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        await make_old_store(url)
        scripts = tomorrow(tmp_path)
        await asyncio.gather(*(upgrade(url, scripts) for _ in range(4)))
        connection = await asyncpg.connect(url)
        assert await revision_of(connection) == "9999"
        rows = await connection.fetch("SELECT id, mood FROM crawler_tasks")
        assert [tuple(row) for row in rows] == [("task-0001", "fine")]
        await connection.close()

    asyncio.run(scenario())


def test_migration_under_load_stops_nobody_and_loses_nothing(url: str, tmp_path: Path) -> None:
    """A master of the version before goes on: its statements name the columns that they know."""

    async def scenario() -> None:
        store = PostgresStore(url=url)
        await store.open()
        made: list[int] = []
        numbers = iter(range(100_000))
        migrated = asyncio.Event()

        async def write() -> None:
            after = 0
            while after < 20:
                number = next(numbers)
                await must(store, Change(tasks=(make_task(number),), events=(make_event(),)))
                made.append(number)
                after += migrated.is_set()

        async def read() -> None:
            while not migrated.is_set():
                await store.tasks([f"task-{number:04}" for number in made[-5:]])
                await store.live_sessions()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(write())
            group.create_task(read())
            await asyncio.sleep(0.1)
            await upgrade(url, tomorrow(tmp_path))
            migrated.set()
        assert sum((await store.count_tasks()).values()) == len(made)
        assert len(await store.events(after=0, limit=100_000)) == len(made)
        await store.close()

    asyncio.run(scenario())


def test_migration_that_fails_leaves_the_store_as_it_was(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        await make_old_store(url)
        connection = await asyncpg.connect(url)
        before = await schema_of(connection)
        scripts = tomorrow(tmp_path, more='op.execute("SELECT nonsense")')
        with pytest.raises(StoreUnavailable, match=r"is as it was.*nonsense"):
            await upgrade(url, scripts)
        assert await schema_of(connection) == before
        assert await revision_of(connection) == HEAD
        await connection.close()
        store = PostgresStore(url=url)
        await store.open()
        assert await store.tasks(["task-0001"]) == [make_task()]
        await store.close()

    asyncio.run(scenario())


def test_masters_that_start_at_once_create_the_schema_once(url: str) -> None:
    async def scenario() -> None:
        stores = [PostgresStore(url=url) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        await must(stores[0], Change(tasks=(make_task(),)))
        assert await stores[3].tasks(["task-0001"]) == [make_task()]
        connection = await asyncpg.connect(url)
        assert await revision_of(connection) == HEAD
        await connection.close()
        for store in stores:
            await store.close()

    asyncio.run(scenario())


def test_newer_store_is_refused_with_both_revisions_and_a_remedy(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        await make_old_store(url)
        await upgrade(url, tomorrow(tmp_path))
        with pytest.raises(StoreTooNew) as caught:
            await PostgresStore(url=url).open()
        message = str(caught.value)
        assert "9999" in message
        assert HEAD in message
        assert "Install that version again" in message

    asyncio.run(scenario())
