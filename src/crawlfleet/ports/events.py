"""The port for consumers of committed events."""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.event import Event


class EventSink(Protocol):
    """Takes committed events in order; may be given the same event again after a crash."""

    async def publish(self, events: Sequence[Event]) -> None: ...
