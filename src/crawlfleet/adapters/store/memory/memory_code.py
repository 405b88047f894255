"""What projects hand over, code and secrets, in plain dictionaries: a part of the memory store."""

from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.model.bundle import Bundle
from crawlfleet.model.secret import Secret


class MemoryCode:
    """Implements what `crawlfleet.ports.store.Store` has about bundles and secrets."""

    def __init__(self) -> None:
        self._bundles: Table[Bundle] = Table()
        self._secrets: Table[Secret] = Table()

    async def bundle(self, id: str) -> Bundle | None:
        self._need_open()
        return self._bundles.rows.get(id)

    async def bundles(self) -> list[Bundle]:
        self._need_open()
        return list(self._bundles)

    async def secret(self, id: str) -> Secret | None:
        self._need_open()
        return self._secrets.rows.get(id)

    async def secrets(self) -> list[Secret]:
        self._need_open()
        return list(self._secrets)

    def _need_open(self) -> None:
        raise NotImplementedError
