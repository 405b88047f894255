"""Many empty stores in one PostgreSQL: a schema costs a few milliseconds, a database fifty."""

from pathlib import Path

from tests.support.servers import PostgresServer


class Schemas:
    """A schema for each folder that asks for one."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._names: dict[Path, str] = {}

    def name(self, folder: Path) -> str:
        if folder not in self._names:
            self._names[folder] = name = f"schema_{len(self._names)}"
            self.server.execute(f"CREATE SCHEMA {name}")
        return self._names[folder]

    def url(self, folder: Path) -> str:
        return self.server.url(search_path=self.name(folder))
