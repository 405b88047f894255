"""The PostgreSQL of a test session, and a schema of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from schemas import Schemas

from crawlfleet.testing.servers import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session (of an xdist worker); it does not wait for the disk."""
    with postgres_server(fsync=False) as server:
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
