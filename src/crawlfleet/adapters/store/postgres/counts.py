"""Counts tasks once for all callers at the same time, and only if there was a commit since.

To count them the server reads an index of all tasks. The counts are the same for as long as the
server's snapshot is: then no transaction of any master has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.task import TaskStatus

SNAPSHOT: Final = "SELECT txid_current_snapshot()::text || ' ' || pg_postmaster_start_time()::text"
"""Statement that identifies the visible transactions and the server: a server that takes over may
give their numbers to others. `txid_current_snapshot` is the name that servers before PostgreSQL 13
know, too.
"""

ByProject = dict[str, dict[TaskStatus, int]]


class Counting:
    """Asks the server by `snapshot` and `count`."""

    def __init__(
        self, *, snapshot: Callable[[], Awaitable[str]], count: Callable[[], Awaitable[ByProject]]
    ) -> None:
        self._snapshot = snapshot
        self._count = count
        self._turn = asyncio.Lock()
        self._begun = self._ended = 0
        """Number of reads that were begun, and number of the read that ended last."""
        self._seen = ""
        self._counts: ByProject = {}
        self._trouble: StoreUnavailable | None = None

    async def by_project(self) -> ByProject:
        """Return the counts at an instant after the call; not to be changed."""
        begun = self._begun
        async with self._turn:
            if self._ended <= begun:
                self._begun += 1
                await self._look()
                self._ended = self._begun
            if self._trouble is not None:
                raise self._trouble
            return self._counts

    async def _look(self) -> None:
        """Read the counts if the snapshot has changed. An error is for all callers that wait: else
        each would wait for the server, one after another.
        """
        self._trouble = None
        try:
            # Before the count, which may see more: then the next look finds another snapshot.
            seen = await self._snapshot()
            if seen != self._seen:
                self._counts = await self._count()
                self._seen = seen
        except StoreUnavailable as error:
            self._trouble = error
