"""The events of this master's newest commits, so that most need not be read from the store."""

from typing import Final

import msgspec

from crawlfleet.model.event import Event

REMEMBERED: Final = 20_000


class RecentEvents:
    """Keeps events until they are taken, or until there are too many."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Event]] = {}
        """Events of each commit, by the number of its first event."""
        self._count = 0

    def keep(self, events: list[Event], last_seq: int) -> None:
        """Keep the events of a commit, the last of which has this number."""
        if self._count + len(events) > REMEMBERED:
            self._kept.clear()
            self._count = 0
        self._kept[last_seq - len(events) + 1] = events
        self._count += len(events)

    def take(self, after: int) -> list[Event]:
        """Take the events after that number, in order, as far as they are in memory.

        Returns none when the next one is not here: then the store has it.
        """
        events: list[Event] = []
        while (some := self._kept.pop(after + 1, None)) is not None:
            for event in some:
                after += 1
                events.append(msgspec.structs.replace(event, seq=after))
        self._count -= len(events)
        for passed in [first for first in self._kept if first <= after]:
            self._count -= len(self._kept.pop(passed))
        return events
