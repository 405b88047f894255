"""Carries committed events to the sinks, in order and at least once.

State and events are one commit, so no change lacks its event. The cursor that says how far the
events were carried is moved now and then: after a crash the last few are carried again, and sinks
recognize them by their number.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.model.event import Event
from crawlfleet.ports.events import EventSink
from crawlfleet.ports.store import Store
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
CONSUMER: Final = "outbox"
PORTION: Final = 1000
CURSOR_EVERY_S: Final = 1.0
"""Interval between two saves of the cursor: each costs a commit."""


class Outbox:
    """Feeds the event log to its sinks, for as long as it runs."""

    def __init__(self, *, store: Store, state: FleetState, sinks: Sequence[EventSink]) -> None:
        self._store = store
        self._state = state
        self._sinks = sinks
        self._position = 0
        self._saved = 0

    @property
    def position(self) -> int:
        """The number of the last event that was carried."""
        return self._position

    async def run(self) -> None:
        """Carry new events whenever the log has grown; runs until cancelled."""
        self._position = self._saved = await self._store.cursor(CONSUMER)
        loop = asyncio.get_running_loop()
        wake = self._state.signals.events
        save_at = loop.time()
        while True:
            unsaved = self._position > self._saved
            try:
                async with asyncio.timeout_at(save_at if unsaved else None):
                    await wake.wait()
            except TimeoutError:
                log.debug("saving the outbox's position", position=self._position)
            wake.clear()
            async with StorePause(log, "outbox waits for the store") as store:
                while await self._carry():
                    pass
                if self._position > self._saved and loop.time() >= save_at:
                    await self.save()
                    save_at = loop.time() + CURSOR_EVERY_S
            if store.has_failed:
                wake.set()

    async def save(self) -> None:
        """Remember durably how far the events were carried."""
        await self._store.move_cursor(CONSUMER, self._position)
        self._saved = self._position

    async def _carry(self) -> bool:
        """Carry a portion; whether there is more."""
        events: Sequence[Event] = self._state.recent_events.take(self._position)
        if not events:
            events = await self._store.events(after=self._position, limit=PORTION)
        for sink in self._sinks:
            await sink.publish(events)
        if not events:
            return False
        self._position = events[-1].seq
        return len(events) == PORTION or self._position < self._state.position.newest
