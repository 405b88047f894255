"""Signals: all events for which loops and requests wait, so that nothing has to poll."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class EndSignals:
    """Wakes callers that wait for the end of a task, or of a run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {}

    def publish(self, id: str) -> None:
        for event in self._waiting.get(id, ()):
            event.set()

    @contextmanager
    def telling(self, wanted: Iterable[str], event: asyncio.Event) -> Iterator[None]:
        """Set this event when one of these ends while this block is entered."""
        ids = {*wanted}
        for id in ids:
            self._waiting.setdefault(id, []).append(event)
        try:
            yield
        finally:
            for id in ids:
                listeners = self._waiting[id]
                listeners.remove(event)
                if not listeners:
                    del self._waiting[id]

    @contextmanager
    def listen(self, task_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when the task ends while this block is entered."""
        event = asyncio.Event()
        listeners = self._waiting.setdefault(task_id, [])
        listeners.append(event)
        try:
            yield event
        finally:
            listeners.remove(event)
            if not listeners:
                self._waiting.pop(task_id, None)


class Signals:
    """Events set by changes to the state; the loop or request that waits clears its event."""

    def __init__(self) -> None:
        self.dispatch = asyncio.Event()
        """Dispatch should plan: there may be something to assign."""
        self.timers = asyncio.Event()
        """Timers should look: a deadline may have come nearer."""
        self.events = asyncio.Event()
        """The outbox should read on: the event log has grown."""
        self.news = asyncio.Event()
        """Followers of the event log should read on: it has grown."""
        self.behind = asyncio.Event()
        """Other masters have committed something, or the copy was loaded anew."""
        self.doubt = asyncio.Event()
        """The copy must be loaded anew: a commit had an unknown outcome."""
        self.ended = EndSignals()
        self._of_features: list[asyncio.Event] = []
        self._sessions: dict[str, asyncio.Event] = {}

    def session(self, session_id: str) -> asyncio.Event:
        """Return the event that is set when there may be news for a node's session."""
        event = self._sessions.get(session_id)
        if event is None:
            event = self._sessions[session_id] = asyncio.Event()
        return event

    def forget_session(self, session_id: str) -> None:
        """Wake the node of a session that has ended a last time, and drop its event."""
        event = self._sessions.pop(session_id, None)
        if event is not None:
            event.set()

    def grown(self) -> None:
        """Wake the readers of the event log, because it has grown."""
        self.events.set()
        self.news.set()

    def wake_with_all(self, event: asyncio.Event) -> None:
        """Have this event of a feature set whenever everything may have changed."""
        self._of_features.append(event)

    def wake_all(self, *, sessions: Iterable[str]) -> None:
        """Set all events, because everything may have changed."""
        for event in (
            self.dispatch,
            self.timers,
            self.events,
            self.news,
            self.behind,
            *self._of_features,
        ):
            event.set()
        for session_id in tuple(sessions):
            self.session(session_id).set()
