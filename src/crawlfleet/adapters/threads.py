"""A thread that works off the jobs of an event loop.

Blocking drivers run in such a thread: the loop never waits for a disk, only one thread uses the
driver, and jobs that have piled up in the meantime are done together.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

from crawlfleet.errors import StoreUnavailable

J = TypeVar("J")
Outcome = Any
"""Result of a job; an exception is raised to the caller."""

SWITCH_S: Final = 0.00002
"""Seconds for which a thread waits for the interpreter lock before it demands it.

A busy event loop gives the lock up at each look at its sockets and takes it back at once. That
wakes a waiting thread, which comes too late and begins its wait anew: with the interpreter's 5 ms
it may never get to demand the lock. Measured on two busy cores, commits of 100 tasks beside a loop
with rounds of 0.3 ms, three runs each in turn: the slowest commit took 14.1, 2.0 and 1.6 s with 5
ms, 0.05, 0.07 and 0.13 s with this. Beside shorter rounds it gains little (0.8 and 0.6 s).
"""


class _Asked(Generic[J]):
    __slots__ = ("future", "job", "loop")

    def __init__(self, job: J) -> None:
        self.job = job
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


class DriverThread(Generic[J]):
    """Hands all waiting jobs, at most `most` of them, to `work`, which answers each in order.

    `work` is called in the lane's own thread. A caller that is cancelled leaves its job behind:
    it is done all the same, and nobody is told. A lane sets the switch interval of its process.
    """

    def __init__(self, name: str, work: Callable[[Sequence[J]], Sequence[Outcome]], most: int):
        self._work = work
        self._most = most
        self._queue: SimpleQueue[_Asked[J] | None] = SimpleQueue()
        self._closed = False
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ask(self, job: J) -> Any:
        """The outcome of `job`; raises `StoreUnavailable` after `close`."""
        if self._closed:
            raise StoreUnavailable("the store is closed; open it first")
        asked = _Asked(job)
        self._queue.put(asked)
        return await asked.future

    async def close(self) -> None:
        """Finish all jobs, then end the thread. May be called twice."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        going = True
        while going:
            first = self._queue.get()
            if first is None:
                return
            batch = [first]
            while len(batch) < self._most:
                try:
                    asked = self._queue.get_nowait()
                except Empty:
                    break
                if asked is None:
                    going = False
                    break
                batch.append(asked)
            self._do(batch)

    def _do(self, batch: list[_Asked[J]]) -> None:
        try:
            outcomes = self._work([asked.job for asked in batch])
        except Exception as error:
            outcomes = [error] * len(batch)
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
        for asked, outcome in zip(batch, outcomes, strict=True):
            loops.setdefault(asked.loop, []).append((asked.future, outcome))
        for loop, answers in loops.items():
            try:
                loop.call_soon_threadsafe(_answer, answers)
            except RuntimeError:
                continue  # the loop was closed under its callers: nobody is left to tell


def _answer(answers: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
