"""The PostgreSQL of a test session, and a schema of its own for each test."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.schemas import Schemas
from tests.support.servers import PostgresServer, RedisServer, postgres_server, redis_server

# Children that are to be killed start from one process that has these imported, and what they bring
# along. Our own names would be in its command line, by which other tests tell the processes of a
# fleet.
multiprocessing.get_context("forkserver").set_forkserver_preload(
    [f"tests.conformance.{name}" for name in ("committer", "crawler", "sink_makers")] + ["pytest"]
)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session (of an xdist worker); it does not wait for the disk."""
    with postgres_server(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """One server for the session (of an xdist worker); its files are in memory."""
    with redis_server(fsync=False, settings={"appendfsync": "always"}) as server:
        yield server


@pytest.fixture(scope="session")
def schemas(postgres: PostgresServer) -> Schemas:
    return Schemas(postgres)


@pytest.fixture
def schema(schemas: Schemas, tmp_path: Path) -> str:
    """The name of an empty schema."""
    return schemas.name(tmp_path)


@pytest.fixture
def url(schemas: Schemas, tmp_path: Path) -> str:
    """The URL of an empty store, in that schema."""
    return schemas.url(tmp_path)
