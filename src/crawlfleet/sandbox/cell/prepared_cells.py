"""Cells that are prepared before there is work, since a short task spends most time on its cell.

A prepared cell has all its layers, and only crawlfleet's own code has run in it. It serves one
execution and is never used again. Cells are prepared for a plan that was requested more than once
recently. The limits and the proxy, which differ between tasks, are put on when a cell is taken.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from crawlfleet.errors import SandboxFailed
from crawlfleet.sandbox.cell.cell import LocalCell
from crawlfleet.sandbox.spec import CellSpec
from crawlfleet.telemetry import Component, logger

PAUSE_S: Final = 0.05
"""Cells are prepared after a pause of this length: earlier they would take CPU time from the work
that they are meant to speed up."""
KEEP_S: Final = 60.0
"""An unused cell is dropped after this time: it holds memory, and mounts of folders that the owner
may change."""
MAX_REMEMBERED_PLANS: Final = 8
"""The number of recent plans to remember. No cells are prepared for work that always differs."""
log = logger(Component.WORKER)

Make = Callable[[CellSpec], Coroutine[Any, Any, LocalCell]]
Discard = Callable[[LocalCell], Awaitable[None]]
FileIds = tuple[tuple[int, int], ...]
MISSING_FILE: Final = (0, 0)


class _PreparedCell:
    def __init__(self, plan: CellSpec, making: asyncio.Task[LocalCell]) -> None:
        self.plan = plan
        self.making = making
        self.file_ids = file_ids_of(plan)
        self.expiry: asyncio.TimerHandle | None = None


class PreparedCells:
    """The prepared cells of one sandbox."""

    def __init__(
        self,
        make: Make,
        discard: Discard,
        *,
        max_cells: int,
        pause_s: float = PAUSE_S,
        keep_s: float = KEEP_S,
    ) -> None:
        """`make` starts a cell by a plan, `discard` ends one that is not needed."""
        self._make = make
        self._discard = discard
        self._max_cells = max_cells
        self._pause_s = pause_s
        self._keep_s = keep_s
        self._stock: list[_PreparedCell] = []
        self._known: deque[CellSpec] = deque(maxlen=MAX_REMEMBERED_PLANS)
        self._pause: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._discarding: set[asyncio.Task[None]] = set()

    async def take(self, plan: CellSpec) -> LocalCell | None:
        """Return a cell that was prepared by this very plan, or is being prepared; `None` when
        there is none. The caller owns the cell. More cells of this plan are prepared in the next
        pause."""
        if self._is_closed:
            return None
        found = self._pick(plan)
        self._note(plan)
        if found is None:
            return None
        try:
            return await asyncio.shield(found.making)
        except asyncio.CancelledError:
            self._abandon(found)  # it may exist already, and only this object knows it
            raise
        except SandboxFailed as error:
            # The caller makes a cell itself, and gets the error if that fails too.
            log.debug("a cell could not be made ahead", reason=str(error))
            return None

    async def close(self) -> None:
        """End all cells and prepare no more; may be called twice."""
        self._is_closed = True
        await self.empty()

    async def empty(self) -> None:
        """End all cells; may be called twice."""
        if self._pause is not None:
            self._pause.cancel()
        for prepared in list(self._stock):
            self._drop(prepared)
        while self._discarding:
            await asyncio.wait(self._discarding)

    def _pick(self, plan: CellSpec) -> _PreparedCell | None:
        for prepared in [each for each in self._stock if each.plan == plan]:
            if _is_usable(prepared):
                self._take_off(prepared)
                return prepared
            self._drop(prepared)
        return None

    def _note(self, plan: CellSpec) -> None:
        is_known = plan in self._known
        if is_known:
            self._known.remove(plan)
        self._known.append(plan)
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if is_known and self._max_cells:
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(self._pause_s, self._restock, plan)

    def _restock(self, plan: CellSpec) -> None:
        """Prepare cells up to the limit. A cell never replaces one of another plan: with work of
        two kinds in turns, twice as many cells would be made as are used."""
        while len(self._stock) < self._max_cells:
            prepared = _PreparedCell(
                plan, asyncio.create_task(self._make(plan), name="prepared cell")
            )
            prepared.expiry = asyncio.get_running_loop().call_later(
                self._keep_s, self._drop, prepared
            )
            self._stock.append(prepared)

    def _take_off(self, prepared: _PreparedCell) -> None:
        self._stock.remove(prepared)
        if prepared.expiry is not None:
            prepared.expiry.cancel()

    def _drop(self, prepared: _PreparedCell) -> None:
        self._take_off(prepared)
        self._abandon(prepared)

    def _abandon(self, prepared: _PreparedCell) -> None:
        prepared.making.cancel()
        ending = asyncio.create_task(self._end(prepared), name="end of a prepared cell")
        self._discarding.add(ending)
        ending.add_done_callback(self._discarding.discard)

    async def _end(self, prepared: _PreparedCell) -> None:
        await asyncio.wait([prepared.making])
        if not prepared.making.cancelled() and prepared.making.exception() is None:
            await self._discard(prepared.making.result())


def file_ids_of(plan: CellSpec) -> FileIds:
    """Identify the files and folders at the plan's paths.

    A cell that was prepared before a folder was replaced still sees, or hides, the old folder.
    """
    found = []
    for path in (*(bind.path for bind in plan.binds), *plan.hidden):
        try:
            seen = Path(path).stat()
            found.append((seen.st_dev, seen.st_ino))
        except OSError:
            found.append(MISSING_FILE)
    return tuple(found)


def _is_usable(prepared: _PreparedCell) -> bool:
    making = prepared.making
    if making.done() and (making.cancelled() or making.exception() or making.result().is_over):
        return False
    return prepared.file_ids == file_ids_of(prepared.plan)
