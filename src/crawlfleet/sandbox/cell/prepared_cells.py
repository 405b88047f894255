"""Cells that are made ahead of the work, since most of the time of a short task goes into its cell.

A spare is a cell like any other, with all its layers, in which nothing has run but this program's
own code. It waits for one execution, and is never used again. It is made for what was asked for
more than once of late; what changes from task to task (limits, whom it may reach) is put on when
it is taken.
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
"""They are made when nothing has been asked for in so long: else they would take the processor from
the work that they are meant to speed up."""
KEEP_S: Final = 60.0
"""An idle node holds nothing for longer: no memory, and no mounts of what its owner may change."""
REMEMBERED: Final = 8
"""Plans of late. Work that is different each time is given no spares."""
log = logger(Component.WORKER)

Make = Callable[[CellSpec], Coroutine[Any, Any, LocalCell]]
Discard = Callable[[LocalCell], Awaitable[None]]
Places = tuple[tuple[int, int], ...]
NOWHERE: Final = (0, 0)


class _Spare:
    def __init__(self, plan: CellSpec, making: asyncio.Task[LocalCell]) -> None:
        self.plan = plan
        self.making = making
        self.places = places_of(plan)
        self.expiry: asyncio.TimerHandle | None = None


class Spares:
    """Those of one sandbox, at most so many."""

    def __init__(
        self,
        make: Make,
        discard: Discard,
        *,
        most: int,
        pause_s: float = PAUSE_S,
        keep_s: float = KEEP_S,
    ) -> None:
        """`make` begins a cell by a plan, `discard` ends one that nobody wants."""
        self._make = make
        self._discard = discard
        self._most = most
        self._pause_s = pause_s
        self._keep_s = keep_s
        self._stock: list[_Spare] = []
        self._known: deque[CellSpec] = deque(maxlen=REMEMBERED)
        self._pause: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._discarding: set[asyncio.Task[None]] = set()

    async def take(self, plan: CellSpec) -> LocalCell | None:
        """A cell that was made by this very plan, or is about to be; it is the caller's from now
        on. `None` when there is none. In a pause others are made for whoever asks next."""
        if self._is_closed:
            return None
        found = self._pick(plan)
        self._note(plan)
        if found is None:
            return None
        try:
            return await asyncio.shield(found.making)
        except asyncio.CancelledError:
            self._abandon(found)  # it may be there already: nobody else knows of it
            raise
        except SandboxFailed as error:
            # Whoever asked makes one for itself, and is told what is wrong if that fails, too.
            log.debug("a cell could not be made ahead", reason=str(error))
            return None

    async def close(self) -> None:
        """End them all, and make no more; may be called twice."""
        self._is_closed = True
        await self.empty()

    async def empty(self) -> None:
        """End them all; may be called twice."""
        if self._pause is not None:
            self._pause.cancel()
        for spare in list(self._stock):
            self._drop(spare)
        while self._discarding:
            await asyncio.wait(self._discarding)

    def _pick(self, plan: CellSpec) -> _Spare | None:
        for spare in [each for each in self._stock if each.plan == plan]:
            if _is_good(spare):
                self._take_off(spare)
                return spare
            self._drop(spare)
        return None

    def _note(self, plan: CellSpec) -> None:
        is_known = plan in self._known
        if is_known:
            self._known.remove(plan)
        self._known.append(plan)
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if is_known and self._most:
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(self._pause_s, self._restock, plan)

    def _restock(self, plan: CellSpec) -> None:
        """None is thrown away for another: work of two kinds in turns would have twice as many
        cells made as it uses."""
        while len(self._stock) < self._most:
            spare = _Spare(plan, asyncio.create_task(self._make(plan), name="spare cell"))
            spare.expiry = asyncio.get_running_loop().call_later(self._keep_s, self._drop, spare)
            self._stock.append(spare)

    def _take_off(self, spare: _Spare) -> None:
        self._stock.remove(spare)
        if spare.expiry is not None:
            spare.expiry.cancel()

    def _drop(self, spare: _Spare) -> None:
        self._take_off(spare)
        self._abandon(spare)

    def _abandon(self, spare: _Spare) -> None:
        spare.making.cancel()
        ending = asyncio.create_task(self._end(spare), name="end of a spare cell")
        self._discarding.add(ending)
        ending.add_done_callback(self._discarding.discard)

    async def _end(self, spare: _Spare) -> None:
        await asyncio.wait([spare.making])
        if not spare.making.cancelled() and spare.making.exception() is None:
            await self._discard(spare.making.result())


def places_of(plan: CellSpec) -> Places:
    """What lies where the plan says: a folder that was put in the place of another since is not
    what a cell would see that was made before; and it would hide what is no longer there."""
    found = []
    for path in (*(bind.path for bind in plan.binds), *plan.hidden):
        try:
            seen = Path(path).stat()
            found.append((seen.st_dev, seen.st_ino))
        except OSError:
            found.append(NOWHERE)
    return tuple(found)


def _is_good(spare: _Spare) -> bool:
    making = spare.making
    if making.done() and (making.cancelled() or making.exception() or making.result().is_over):
        return False
    return spare.places == places_of(spare.plan)
