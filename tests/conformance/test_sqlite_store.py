"""The SQLite store does what every store must, and what one file on one disk needs."""

from pathlib import Path

from crawlfleet.backends.sqlite import SqliteStore
from crawlfleet.ports.store import Store
from crawlfleet.testing.store_suite import DurableStoreSuite


class TestSqliteStore(DurableStoreSuite):
    def make_store(self, folder: Path) -> Store:
        return SqliteStore(path=folder / "store.db")
