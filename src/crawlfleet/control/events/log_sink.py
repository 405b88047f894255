"""Events as log lines: one event, one line, with its ids as fields."""

from collections.abc import Sequence
from typing import Final

from crawlfleet.model.event import Event
from crawlfleet.telemetry import Component, is_debugging, logger

_sched = logger(Component.SCHED)
_recover = logger(Component.RECOVER)
_master = logger(Component.MASTER)

TROUBLE: Final = frozenset({"task.failed", "task.timeout", "node.unresponsive"})


class EventLog:
    """Writes events to the structured log; routine life of tasks only at level debug."""

    async def publish(self, events: Sequence[Event]) -> None:
        routine = is_debugging()
        for event in events:
            if not routine and event.kind not in TROUBLE and event.kind.startswith("task."):
                continue
            write = _sched.debug if event.kind.startswith("task.") else _master.info
            if event.kind in TROUBLE:
                write = _recover.warning
            write(event.kind, subject=event.subject, cause=event.cause, **event.details)
