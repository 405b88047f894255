"""Turns the progress of tasks with a call-back into events, a few times a minute at most.

Progress reports of nodes are kept in memory only, by the master that received them. For a task with
a call-back they become events at intervals, so that they are delivered like all others: in order,
by the master that leads. Other tasks cost nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.errors import StoreUnavailable
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.log import Progress
from crawlfleet.model.task import Shard
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
REMEMBERED: Final = 10_000
"""Maximum number of tasks whose last progress event is remembered; beyond it one may follow a
little early."""


class ProgressEvents:
    """Makes events of progress, for tasks with a call-back."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        every_s: float,
        sum_up: Callable[[str, Sequence[Shard]], Progress | None],
    ) -> None:
        """Set up the events. `sum_up` adds up the progress of the shards of a task."""
        self._store = store
        self._state = state
        self._system = system
        self._every_s = every_s
        self._sum_up = sum_up
        self._told: OrderedDict[str, tuple[float, Progress]] = OrderedDict()
        """Time and value of the last progress event, by task."""

    async def note(self, moved: Sequence[tuple[str, Progress]]) -> None:
        """Record the progress of executions, and emit events where they are due."""
        events = []
        for execution_id, progress in moved:
            lease = self._state.leases.get(execution_id)
            if lease is not None and lease.owns and lease.task.callback is not None:
                event = await self._event(lease.task.id, execution_id, progress)
                events += [event] if event else []
        if not events:
            return
        try:
            await self._state.commit([Change(events=tuple(events))])
        except StoreUnavailable as error:
            # The next progress will do, and the end is told of in any case.
            log.warning("progress is not told of", error=str(error))

    async def _event(self, task_id: str, execution_id: str, progress: Progress) -> Event | None:
        lease = self._state.leases[execution_id]
        subject, now = lease.task.parent_id or task_id, self._system.now()
        at, before = self._told.get(subject, (0.0, None))
        if before is not None and now - at < self._every_s:
            return None
        if lease.task.parent_id is not None:
            try:
                progress = self._sum_up(subject, await self._store.shards(subject)) or progress
            except StoreUnavailable:
                return None
        if before is not None and (before.done, before.total) == (progress.done, progress.total):
            if lease.task.parent_id is not None:
                # Not read again for each of its shards.
                self._told[subject] = now, before
            return None
        self._told[subject] = now, progress
        self._told.move_to_end(subject)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return callbacks.progressed(
            lease.task, execution_id, done=progress.done, total=progress.total, now=now
        )
