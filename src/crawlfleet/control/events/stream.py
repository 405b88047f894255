"""The event log for readers: pages of events, and the log as it grows.

A follower reads the log from the store at its own pace, and is only woken when there is more; so a
slow follower holds up nobody, and one that comes back goes on where it was.
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
"""Maximum number of portions that one call reads to find rare events; the next call goes on."""
HEARTBEAT_S: Final = 15.0
PAUSE_S: Final = 0.05
"""A follower waits this long before it reads, so it costs at most twenty reads a second."""
MAX_FOLLOWED_S: Final = 900.0
"""A follower's stream ends after this; to go on it connects and authenticates again."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on events: the kind's first characters, the subject, and the project."""

    kind: str = ""
    subject: str | None = None
    project_id: str | None = None
    """Project of the events to return; all projects when not set."""

    def takes(self, event: Event) -> bool:
        return event.kind.startswith(self.kind) and self.project_id in (None, event.project_id)

    @property
    def is_choosy(self) -> bool:
        """Return whether many events may have to be read to find a few."""
        return bool(self.kind) or self.project_id is not None


class StreamedEvents(NamedTuple):
    """Matching events, perhaps none, and the position up to which the log was read."""

    events: Sequence[Event]
    position: int


class Broadcast:
    """Wakes the followers of the log."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()
        self.has_ended = False

    @property
    def listeners(self) -> int:
        """Return the number of followers of the log."""
        return len(self._listeners)

    async def run(self, grown: asyncio.Event) -> None:
        """Wake all followers whenever the log has grown."""
        while True:
            await grown.wait()
            grown.clear()
            self._wake()

    def end(self) -> None:
        """End all followers, because the master stops; they connect to the next master."""
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
        """Return the number of followers of the log."""
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
        """Stream matching events while the block is entered; from now on without `after`.

        An item without events comes first, and every few seconds when nothing happens. The stream
        ends by itself now and then, and when the master stops. Raises `Busy` when there are too
        many followers, or too many with this name. An `after` beyond the end of the log, for
        example of a store that was restored, is taken for now.
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
