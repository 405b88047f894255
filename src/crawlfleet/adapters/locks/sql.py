"""What locks in a SQL table do alike, wherever the table is."""

from abc import ABC, abstractmethod
from typing import Any

from crawlfleet.adapters.locks.statements import LockStatements
from crawlfleet.model.wire.locks import Hold, Occupied


class SqlLocks(ABC):
    """Asks by statements; a subclass says how one is carried out."""

    def __init__(self, statements: LockStatements) -> None:
        self._sql = statements

    @abstractmethod
    async def _ask(self, statement: str, *arguments: Any) -> Any:
        """The row that a statement gives, in a transaction of its own, or `None`."""

    async def take(self, name: str, holder: str, lease_s: float) -> Hold | Occupied:
        while True:
            if taken := await self._ask(self._sql.take, name, holder, lease_s):
                return Hold(name=name, holder=holder, token=taken[0], lease_s=lease_s)
            await self._ask(self._sql.shorten, name)
            if (found := await self.look(name)) is not None:
                return found

    async def renew(self, hold: Hold) -> bool:
        return await self._ask(self._sql.renew, hold.name, hold.holder, hold.token) is not None

    async def release(self, hold: Hold) -> bool:
        return await self._ask(self._sql.release, hold.name, hold.holder, hold.token) is not None

    async def look(self, name: str) -> Occupied | None:
        found = await self._ask(self._sql.look, name)
        if found is None:
            return None
        return Occupied(holder=found[0], token=found[1], free_in_s=found[2])
