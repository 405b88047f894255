"""One memory store that several masters share: one of them leads, and all hear of each other.

    store = MemoryStore()
    shared = SharedMemory(store)
    one, other = shared.seat(), shared.seat()

A seat is a `Store`. What it commits is told to the others after `delay_s()`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.ports.store import Change, Committed, Lead


class SharedMemory:
    """The state that the seats share."""

    def __init__(self, store: MemoryStore, *, delay_s: Callable[[], float] = lambda: 0.0) -> None:
        self.store = store
        self.delay_s = delay_s
        self.leader: Seat | None = None
        self.lost = asyncio.Event()
        self._seats: list[Seat] = []
        self._open = 0

    def seat(self) -> "Seat":
        """The store as one master sees it."""
        seat = Seat(self)
        self._seats.append(seat)
        return seat

    def tell(self, writer: "Seat", seq: int) -> None:
        loop = asyncio.get_running_loop()
        for seat in self._seats:
            if seat is not writer:
                loop.call_later(self.delay_s(), seat.hear, seq)

    def leave(self, seat: "Seat") -> None:
        """The seat's master is gone, or does not lead any more."""
        if self.leader is seat:
            self.leader = None
            self.lost.set()

    async def open(self) -> None:
        self._open += 1
        if self._open == 1:
            await self.store.open()

    async def close(self, seat: "Seat") -> None:
        self.leave(seat)
        self._seats.remove(seat)
        self._open -= 1
        if not self._open:
            await self.store.close()


class Seat:
    """Implements `crawlfleet.ports.store.Store` for one of several masters."""

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared
        self._opened = False
        self._newest = 0
        self._news = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared.store, name)

    async def open(self) -> None:
        if not self._opened:
            self._opened = True
            await self._shared.open()
            self.hear((await self._shared.store.commit([])).last_seq)

    async def close(self) -> None:
        if self._opened:
            self._opened = False
            await self._shared.close(self)

    async def commit(self, changes: Sequence[Change]) -> Committed:
        before = (await self._shared.store.commit([])).last_seq
        committed = await self._shared.store.commit(changes)
        if committed.last_seq > before:
            self._shared.tell(self, committed.last_seq)
        return committed

    async def lead(self, leader: str) -> Lead | None:
        if self._shared.leader not in (None, self):
            return None
        lead = await self._shared.store.lead(leader)
        if self._shared.leader is None:
            self._shared.lost = asyncio.Event()
        self._shared.leader = self
        return None if lead is None else _SeatLead(lead.epoch, self, self._shared)

    async def changes(self) -> AsyncIterator[int]:
        told = 0
        while True:
            await self._news.wait()
            self._news.clear()
            if self._newest > told:
                told = self._newest
                yield told

    def hear(self, seq: int) -> None:
        """Note that another seat has written events up to this number."""
        self._newest = max(self._newest, seq)
        self._news.set()


class _SeatLead:
    def __init__(self, epoch: int, seat: Seat, shared: SharedMemory) -> None:
        self.epoch = epoch
        self._seat = seat
        self._shared = shared
        self._lost = shared.lost

    async def lost(self) -> None:
        await self._lost.wait()

    async def resign(self) -> None:
        if not self._lost.is_set():
            self._shared.leave(self._seat)
