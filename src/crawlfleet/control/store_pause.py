"""A pause for the master's loops while the store cannot be used."""

import asyncio
from types import TracebackType
from typing import Final, Protocol, Self

from crawlfleet.errors import StoreUnavailable

STORE_PAUSE_S: Final = 0.5


class _Log(Protocol):
    def warning(self, event: str, /, **fields: object) -> object: ...


class StorePause:
    """A context manager that swallows `StoreUnavailable`: it logs the error and waits for a while.

    After that `has_failed` is true; every other error passes through.
    """

    def __init__(self, log: _Log, message: str, **fields: object) -> None:
        self.has_failed = False
        self._log = log
        self._message = message
        self._fields = fields

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, StoreUnavailable):
            return False
        self.has_failed = True
        self._log.warning(self._message, error=str(error), **self._fields)
        await asyncio.sleep(STORE_PAUSE_S)
        return True
