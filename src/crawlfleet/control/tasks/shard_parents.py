"""Ends tasks that were split, when the last of their shards has ended.

The outbox passes every event to it at least once and in order; its cursor is durable, so that no
end of a shard is missed when a master dies. A parent is ended by its version and under the leader's
epoch: however often its shards are read, it ends once.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

import msgspec

from crawlfleet.control.quality import Measurement
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.core.quality.recording import QualityRecord
from crawlfleet.core.tasks import parents as shards
from crawlfleet.core.tasks.merge import data_of
from crawlfleet.errors import Conflict, LeadershipLost, StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.task import TERMINAL, Task, TaskStatus
from crawlfleet.ports.store import Store, TaskFilter
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
ENDS: Final = frozenset(f"task.{status}" for status in TERMINAL)
OPEN: Final = (TaskStatus.WAITING, TaskStatus.PAUSED)
PORTION: Final = 16
"""Number of shards read at once: each may have a result of a megabyte."""
PARENTS: Final = 500


class ShardParents:
    """Implements `crawlfleet.ports.events.EventSink`, for the master that leads."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        measuring: Measurement | None = None,
    ) -> None:
        """Create the sink. If `measuring` is not set, the expectations of tasks are not checked."""
        self._measuring = measuring
        self._unmeasured: dict[str, None] = {}
        """Tasks whose shards have completed, and whose items have to be measured."""
        self._news = asyncio.Event()
        self._store = store
        self._state = state
        self._system = system

    async def publish(self, events: Sequence[Event]) -> None:
        """End the parents whose last shards ended with these events. Raises `LeadershipLost` or
        `StoreUnavailable`: then the events have to come again.
        """
        parents = dict.fromkeys(
            event.details["parent_id"]
            for event in events
            if event.kind in ENDS and "parent_id" in event.details
        )
        for parent_id in parents:
            await self.gather(parent_id)

    async def run(self) -> None:
        """Look at all waiting parents once: the event log may not go back to their beginning. Then
        measure tasks with expectations, for which other tasks must not wait.
        """
        while True:
            async with StorePause(log, "gathering waits for the store"):
                async for parent_id in self._waiting():
                    await self.gather(parent_id)
                while True:
                    await self._news.wait()
                    self._news.clear()
                    await self.measure()

    async def measure(self) -> None:
        """End the tasks that only wait for their items to be measured."""
        while self._unmeasured:
            parent_id = next(iter(self._unmeasured))
            # Before, not after: what is heard of it meanwhile has to be looked at, too.
            del self._unmeasured[parent_id]
            try:
                await self.gather(parent_id, measured=True)
            except (StoreUnavailable, LeadershipLost):
                self._unmeasured[parent_id] = None
                self._news.set()
                raise
            except Exception:
                # A task is durable: raised on, this would end every master that leads.
                log.exception("defect: a split task waits to be gathered", task_id=parent_id)

    async def gather(self, parent_id: str, *, measured: bool = False) -> bool:
        """End a task if all of its shards have ended; returns whether it did. A task with
        expectations ends only when called with `measured`, which may take a while.
        """
        try:
            ended = await self._state.decide(
                parent_id, partial(self._decide, parent_id, measured), as_leader=True
            )
        except Conflict:
            raise self._state.reload(f"{parent_id} changes too quickly to be gathered") from None
        if ended is not None:
            log.info("gathered", task_id=parent_id, status=str(ended.status))
        return ended is not None

    async def _decide(self, parent_id: str, measured: bool) -> tuple[Task | None, Change | None]:
        """Return the ended task and the change that ends it; `None` twice if it cannot end now."""
        parent = next(iter(await self._store.tasks([parent_id])), None)
        if parent is None or parent.status not in OPEN or not parent.is_parent:
            return None, None
        # In this order: a shard that lives again later has given its parent a new version.
        if any(each.status not in TERMINAL for each in await self._store.shards(parent_id)):
            return None, None
        gathering = shards.Gathering(parent)
        async for child in self._children(parent_id):
            gathering.take(child)
        judged: QualityRecord | None = None
        if self._measuring and parent.expectations is not None and gathering.is_complete:
            if not measured:
                self._unmeasured[parent_id] = None
                self._news.set()
                return None, None
            judged = await self._judge(self._measuring, parent, gathering)
        change = gathering.end(now=self._system.now(), judged=judged)
        return (None, None) if change is None else (change.tasks[0], change)

    async def _judge(
        self, measuring: Measurement, parent: Task, gathering: shards.Gathering
    ) -> QualityRecord:
        async def results() -> AsyncIterator[msgspec.Raw]:
            async for child in self._children(parent.id):
                yield data_of(child)

        return await measuring.judge(parent, gathering.metrics, results)

    async def _children(self, parent_id: str) -> AsyncIterator[Task]:
        after: str | None = None
        of_parent = TaskFilter(parent_id=parent_id)
        while True:
            portion = await self._store.find_tasks(
                of_parent, after=after, limit=PORTION, newest_first=False
            )
            for child in portion:
                yield child
            if len(portion) < PORTION:
                return
            after = portion[-1].id

    async def _waiting(self) -> AsyncIterator[str]:
        after: str | None = None
        filter = TaskFilter(status=OPEN)
        while True:
            portion = await self._store.find_tasks(
                filter, after=after, limit=PARENTS, newest_first=False
            )
            for task in portion:
                if task.is_parent:
                    yield task.id
            if len(portion) < PARENTS:
                return
            after = portion[-1].id
