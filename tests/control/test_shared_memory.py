"""The store that simulated masters share does what a shared store must."""

from pathlib import Path

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.ports.store import Store
from crawlfleet.testing.simulation.shared import SharedMemory
from crawlfleet.testing.store_suite.commits import CommitTests
from crawlfleet.testing.store_suite.masters import SharedStoreTests


class TestSharedMemory(CommitTests, SharedStoreTests):
    _shared: dict[Path, SharedMemory]

    def make_store(self, folder: Path) -> Store:
        self._shared = getattr(self, "_shared", {})
        shared = self._shared.setdefault(folder, SharedMemory(MemoryStore()))
        store: Store = shared.seat()
        return store
