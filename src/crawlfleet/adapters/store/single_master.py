"""Leadership of a store that only one master can use: it leads, and no other commits."""

import asyncio
from collections.abc import AsyncIterator


class SoleLead:
    """Implements `crawlfleet.ports.store.Lead` for a store with one master: it is never lost."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None:
        """Do nothing: there is no other master to lead."""


async def no_changes() -> AsyncIterator[int]:
    """Yield nothing: no other master commits."""
    others: tuple[int, ...] = ()
    for newest in others:
        yield newest
