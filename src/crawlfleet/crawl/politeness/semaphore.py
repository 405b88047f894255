"""A semaphore that costs next to nothing when it is free.

Every page takes several of them and hardly ever waits. So taking is a plain call, and only waiting
is not: `if not slots.take(): await slots.wait()`.
"""

import asyncio
from collections import deque


class Slots:
    """Slots, each to be given back once after it was taken. Waiters get slots in their order."""

    __slots__ = ("_waiting", "free")

    def __init__(self, count: int) -> None:
        self.free = count
        """Number of free slots. It is 0 while a task waits: a slot that is given back goes to the
        next waiter."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a slot if one is free. Returns whether it did."""
        if self.free:
            self.free -= 1
            return True
        return False

    async def wait(self) -> None:
        """Wait for a slot, and take it."""
        if self.take():
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.give()  # its turn came in the same moment
            raise

    def give(self) -> None:
        """Give a slot back: to the first waiter, if there is one."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.free += 1
