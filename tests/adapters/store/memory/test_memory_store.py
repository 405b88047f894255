"""The memory store does what every store must."""

from pathlib import Path

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.ports.store import Store
from crawlfleet.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self, folder: Path) -> Store:
        return MemoryStore()
