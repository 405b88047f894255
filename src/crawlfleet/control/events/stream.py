"""What happened, for those who ask: pages of the event log, and the log as it grows.

Who follows the log reads it from the store, at its own pace, and is only woken when there is more;
so a slow reader holds up nobody, and one that was away goes on where it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from crawlfleet.control.events.followers import FollowerSlots
from crawlfleet.model.event import Event
from crawlfleet.ports.store import Store

PORTION: Final = 1000
MAX_PORTIONS: Final = 20
"""How far one question looks for events of a kind that is rare; the next one goes on from there."""
HEARTBEAT_S: Final = 15.0
PAUSE_S: Final = 0.05
"""What happens within it is read at once: a follower costs at most twenty reads a second."""
MAX_FOLLOWED_S: Final = 900.0
"""Then a follower has to come back, and show that its key is still good."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are wanted: those whose kind begins like this, and about this subject."""

    kind: str = ""
    subject: str | None = None
    project_id: str | None = None
    """Only those about things of this project."""

    def takes(self, event: Event) -> bool:
        return event.kind.startswith(self.kind) and self.project_id in (None, event.project_id)

    @property
    def is_choosy(self) -> bool:
        """Whether many events may have to be read to find a few."""
        return bool(self.kind) or self.project_id is not None


class StreamedEvents(NamedTuple):
    """Events that are wanted, perhaps none, and how far the log was read for them."""

    events: Sequence[Event]
    position: int


class Broadcast:
    """Wakes the followers of the log."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()
        self.has_ended = False

    @property
    def listeners(self) -> int:
        """How many follow the log now."""
        return len(self._listeners)

    async def run(self, grown: asyncio.Event) -> None:
        """Wake them whenever the log has grown."""
        while True:
            await grown.wait()
            grown.clear()
            self._wake()

    def end(self) -> None:
        """The master stops: followers end at once, and come back to the next one."""
        self.has_ended = True
        self._wake()

    @contextmanager
    def listen(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever the log has grown."""
        grown = asyncio.Event()
        self._listeners.add(grown)
        try:
            yield grown
        finally:
            self._listeners.discard(grown)

    def _wake(self) -> None:
        for grown in self._listeners:
            grown.set()


class Events:
    """Reads the event log; changes nothing."""

    def __init__(self, *, store: Store, broadcast: Broadcast, position: Callable[[], int]) -> None:
        self._store = store
        self._broadcast = broadcast
        self._position = position
        """The number of the newest event, or nearly so."""
        self._places = FollowerSlots("the events")

    @property
    def position(self) -> int:
        """The number of the newest event that this master knows of."""
        return self._position()

    @property
    def followers(self) -> int:
        """How many follow the log now."""
        return self._broadcast.listeners

    async def find(
        self, wanted: EventFilter, *, after: int, limit: int
    ) -> tuple[list[Event], str | None]:
        """A page of events in order, and where the next one begins.

        A page that is not full is not always the last: only `None` means that there is no more.
        """
        page: list[Event] = []
        size = PORTION if wanted.is_choosy else limit + 1
        for _ in range(MAX_PORTIONS):
            portion = await self._store.events(after=after, limit=size, subject=wanted.subject)
            for event in filter(wanted.takes, portion):
                if len(page) == limit:
                    return page, str(page[-1].seq)
                page.append(event)
            if len(portion) < size:
                return page, None
            after = portion[-1].seq
        return page, str(after)

    async def newest(self, wanted: EventFilter, *, limit: int) -> list[Event]:
        """The last events, in order; of a rare kind perhaps fewer than there are."""
        page: list[Event] = []
        end = self._position()
        for _ in range(MAX_PORTIONS):
            start = max(end - PORTION, 0)
            found = await self._store.events(after=start, limit=PORTION, subject=wanted.subject)
            page = [each for each in found if each.seq <= end and wanted.takes(each)] + page
            if len(page) >= limit or not start:
                break
            end = start
        return page[-limit:]

    @contextmanager
    def follow(
        self, wanted: EventFilter, *, after: int | None, name: str = ""
    ) -> Iterator[AsyncGenerator[StreamedEvents, None]]:
        """News for as long as the block is entered; from now on if `after` is `None`.

        News without events come first, and every few seconds when nothing happens. It ends by
        itself now and then, and when the master stops. Raises `Busy` when too many follow already,
        or too many in this name. An `after` that is not reached yet, of a store that was restored
        for example, is taken for now.
        """
        with self._places.take(name), self._broadcast.listen() as grown:
            yield self._news(wanted, self._position() if after is None else after, grown)

    async def _news(
        self, wanted: EventFilter, position: int, grown: asyncio.Event
    ) -> AsyncGenerator[StreamedEvents, None]:
        loop = asyncio.get_running_loop()
        until, told = loop.time() + MAX_FOLLOWED_S, loop.time()
        if position > self._position():
            # Another master may have told of it; only the store knows what there is.
            position = min(position, (await self._store.commit(())).last_seq)
        yield StreamedEvents((), position)
        while not self._broadcast.has_ended and loop.time() < until:
            grown.clear()
            portion = await self._store.events(
                after=position, limit=PORTION, subject=wanted.subject
            )
            if portion:
                position = portion[-1].seq
            events = (*filter(wanted.takes, portion),)
            if events or loop.time() >= told + HEARTBEAT_S:
                told = loop.time()
                yield StreamedEvents(events, position)
            if len(portion) < PORTION:
                try:
                    async with asyncio.timeout_at(told + HEARTBEAT_S):
                        await grown.wait()
                    await asyncio.sleep(PAUSE_S)
                except TimeoutError:
                    continue
