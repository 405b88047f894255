"""Commits that need not be quick share one: changes that come within a moment are made together.

A hundred nodes that beat one after another would cost a hundred durable steps, and wake the writer
and the processor as often.
"""

import asyncio
import contextvars
from collections.abc import Sequence

from crawlfleet.control.state import FleetState
from crawlfleet.model.change import Change
from crawlfleet.ports.store import Refusal


class SharedCommit:
    """As `FleetState.commit`, up to `within_s` later; for changes that nobody signs."""

    def __init__(self, state: FleetState, *, within_s: float) -> None:
        self._state = state
        self._within_s = within_s
        self._waiting: list[tuple[Sequence[Change], asyncio.Future[list[Refusal | None]]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def commit(self, changes: Sequence[Change]) -> list[Refusal | None]:
        """What was refused of these; raises what the common commit raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Refusal | None]] = loop.create_future()
        if not self._waiting:
            # Of no caller: it acts for all of them.
            loop.call_later(self._within_s, self._start, context=contextvars.Context())
        self._waiting.append((changes, answer))
        return await answer

    def _start(self) -> None:
        running = asyncio.get_running_loop().create_task(self._commit_all())
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _commit_all(self) -> None:
        together, self._waiting = self._waiting, []
        try:
            refusals = await self._state.commit([each for some, _ in together for each in some])
        except asyncio.CancelledError:
            for _, answer in together:
                answer.cancel()
            raise
        except Exception as error:
            for _, answer in together:
                if not answer.done():
                    answer.set_exception(error)
            return
        for changes, answer in together:
            if not answer.done():
                answer.set_result(refusals[: len(changes)])
            del refusals[: len(changes)]
