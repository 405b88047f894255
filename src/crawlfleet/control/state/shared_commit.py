"""Shared commits: changes that need not be quick, and come within a moment, are committed together.

Separate commits for the heartbeats of a hundred nodes would cost a hundred durable writes, and wake
the writer and the processor as often.
"""

import asyncio
import contextvars
from collections.abc import Sequence

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.model.change import Change
from crawlfleet.ports.store import Refusal


class SharedCommit:
    """Commits as `FleetState.commit`, up to `within_s` later; for changes without an audit entry.

    It commits at once when `enough` callers wait.
    """

    def __init__(self, state: FleetState, *, within_s: float, enough: int) -> None:
        self._state = state
        self._within_s = within_s
        self._enough = enough
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[Sequence[Change], asyncio.Future[list[Refusal | None]]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def commit(self, changes: Sequence[Change]) -> list[Refusal | None]:
        """Commit with others; returns the refusals of these changes."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Refusal | None]] = loop.create_future()
        self._waiting.append((changes, answer))
        if len(self._waiting) == 1:
            self._timer = loop.call_later(self._within_s, self._start)
        elif len(self._waiting) == self._enough:
            self._start()
        return await answer

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Of no caller: it acts for all of them.
        running = asyncio.get_running_loop().create_task(
            self._commit_all(), context=contextvars.Context()
        )
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
