"""The broom for logs of executions: lines that are too old go, and the oldest of too many.

How large all logs are is counted by stretches of time, the newest ones anew at each turn: a line
is read a few times for it, however long it is kept.
"""

import asyncio
from typing import Final

from crawlfleet.core.logs.retention import find_cut, start_of, stretch_of
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.log import LogSize
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
DAY_S: Final = 86_400.0
MB: Final = 1_000_000.0
SWEEP_EVERY_S: Final = 300.0
PAUSE_S: Final = 0.2
"""Between two portions: commits go first."""
LATE_STRETCHES: Final = 3
"""Number of stretches after their time within which late lines are still counted."""


class LogRetention:
    """Sweeps the logs of executions for as long as this master leads."""

    def __init__(self, *, store: Store, system: System, settings: RetentionSettings) -> None:
        self._store = store
        self._system = system
        self._settings = settings
        self._sizes: dict[int, LogSize] = {}
        self._settled = 0
        """Stretches before this one do not grow any more, and were counted."""

    async def run(self) -> None:
        """Sweep every few minutes, in small portions."""
        self._sizes, self._settled = {}, 0  # another master may have swept since
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("logs not swept", error=str(error))
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> int:
        """Remove all that is not kept; how many lines went."""
        now, settings = self._system.now(), self._settings
        removed = 0
        if settings.logs_days:
            removed += await self._remove(now - settings.logs_days * DAY_S)
        if settings.logs_mb:
            await self._count(now)
            removed += await self._remove_surplus()
        return removed

    async def _remove_surplus(self) -> int:
        cut = find_cut(self._sizes, most=self._settings.logs_mb * MB)
        if cut is None:
            return 0
        removed = await self._remove(start_of(cut.stretch))
        removed += await self._remove(start_of(cut.stretch + 1), most=cut.lines)
        self._sizes = {each: size for each, size in self._sizes.items() if each > cut.stretch}
        await self._measure(cut.stretch)
        log.info("oldest lines of logs removed", lines=removed, kept_mb=self._settings.logs_mb)
        return removed

    async def _remove(self, before: float, *, most: int | None = None) -> int:
        """Remove the oldest lines before an instant, all or so many, portion by portion."""
        removed = 0
        while most is None or removed < most:
            limit = self._settings.step
            if most is not None:
                limit = min(limit, most - removed)
            gone = await self._store.remove_logs(before=before, limit=limit)
            removed += gone
            if gone < limit:
                break
            await asyncio.sleep(PAUSE_S)
        return removed

    async def _count(self, now: float) -> None:
        """Know the size of each stretch; those that may still grow are counted each time."""
        since = start_of(self._settled)
        aged = now - self._settings.logs_days * DAY_S if self._settings.logs_days else 0.0
        self._sizes = {
            each: size
            for each, size in self._sizes.items()
            if stretch_of(aged) <= each < self._settled
        }
        while (oldest := await self._store.oldest_log(since=since)) is not None:
            stretch = stretch_of(oldest)
            await self._measure(stretch)
            since = start_of(stretch + 1)
        self._settled = max(self._settled, stretch_of(now) - LATE_STRETCHES)

    async def _measure(self, stretch: int) -> None:
        size = await self._store.log_size(since=start_of(stretch), until=start_of(stretch + 1))
        if size.lines:
            self._sizes[stretch] = size
