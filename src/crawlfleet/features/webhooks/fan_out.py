"""Turns events into deliveries, one for each webhook that wants an event.

The fan-out receives every event at least once and in order from the outbox, whose cursor is
durable, so no event is lost when a master dies. The id of a delivery follows from the webhook and
the event, so a repeated delivery is refused by its version.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Format, Webhook
from crawlfleet.features.webhooks.queue import DeliveryQueue
from crawlfleet.features.webhooks.rules import callbacks, webhooks
from crawlfleet.features.webhooks.rules import delivery as deliveries
from crawlfleet.features.webhooks.table import DELIVERIES, WEBHOOKS
from crawlfleet.features.workflows.model import Run, RunStep
from crawlfleet.features.workflows.table import RUNS, steps_of
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.task import Task
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
EVENTS_BATCH: Final = 200
"""Maximum number of deliveries in one commit: each may be 64 kB."""
TASKS_BATCH: Final = 16
"""Maximum number of tasks that are read at once: each may have a result of a megabyte."""
REMEMBERED: Final = 10_000
"""Maximum number of tasks remembered as of no interest to any webhook: most events are about a task
that was seen before."""
OF_WEBHOOKS: Final = "webhook."
RESENT: Final = "delivery.resent"
OF_RUNS: Final = ("run.", "step.")
Standing = tuple[Run, Sequence[RunStep]]
"""A run, and the rows of its steps."""


class FanOut:
    """Implements `crawlfleet.ports.events.EventSink`, for the master that leads."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        most_waiting: int,
        ready: Callable[[], Awaitable[DeliveryQueue]],
    ) -> None:
        """Set up the fan-out. `ready` waits until the waiting deliveries are loaded, and returns
        the queue."""
        self._store = store
        self._state = state
        self._system = system
        self._most_waiting = most_waiting
        self._ready = ready
        self.webhooks: dict[str, Webhook] | None = None
        """Webhooks as of the newest event; `None` before the first."""
        self._irrelevant_tasks: OrderedDict[str, None] = OrderedDict()

    async def publish(self, events: Sequence[Event]) -> None:
        """Turn these events into deliveries. Raises `LeadershipLost` or `StoreUnavailable`; the
        events must then be sent again."""
        queue = await self._ready()
        # Not before: while this master did not lead, others may have changed them.
        known = self.webhooks
        if known is None or any(event.kind.startswith(OF_WEBHOOKS) for event in events):
            known = await self.look()
        if not known:
            return
        if again := [event.subject for event in events if event.kind == RESENT]:
            await self._put_waiting(again, queue)
        heard = [each for each in known.values() if each.is_heard]
        wanted = [
            (webhook, event)
            for event in events
            for webhook in heard
            if webhooks.may_want(webhook, event)
        ]
        for first in range(0, len(wanted), EVENTS_BATCH):
            await self._fan_out_events(wanted[first : first + EVENTS_BATCH], queue)

    async def look(self) -> dict[str, Webhook]:
        """All webhooks, as they are now."""
        self.webhooks = {each.id: each for each in await self._store.find(WEBHOOKS.where())}
        self._irrelevant_tasks.clear()
        return self.webhooks

    async def _fan_out_events(
        self, wanted: Sequence[tuple[Webhook, Event]], queue: DeliveryQueue
    ) -> None:
        tasks, runs = await self._tasks(wanted), await self._runs(wanted)
        now = self._system.now()
        made: list[Delivery] = []
        for webhook, event in wanted:
            run = runs.get(event.subject)
            if run is not None and webhook.format is Format.CALLBACK:
                made.append(deliveries.delivery_of(webhook, event, None, run=run, now=now))
                continue
            task = tasks.get(event.subject)
            if webhooks.wants(webhook, task) and not _is_outdated(webhook, event, task):
                made.append(deliveries.delivery_of(webhook, event, task, now=now))
        # One change each: of those that come again, some may be there.
        projects = {webhook.id: webhook.project_id for webhook, _ in wanted}
        changes = [*self._kept(made, queue, projects, now)]
        refusals = await self._state.commit_as_leader(changes)
        there: list[str] = []
        for change, refusal in zip(changes, refusals, strict=True):
            (delivery,) = change.of(Delivery)
            if refusal is not None:
                there.append(delivery.id)
            elif delivery.status is DeliveryStatus.WAITING:
                await self._put(delivery, queue)
        # Perhaps by a commit of ours that got no answer: then nobody else has put them there.
        await self._put_waiting(there, queue)
        for webhook in {webhook.id: webhook for webhook, _ in wanted}.values():
            is_callback = webhook.format is Format.CALLBACK
            if not is_callback and queue.waiting(webhook.id) >= self._most_waiting:
                await self._stop(webhook)

    def _kept(
        self,
        made: Sequence[Delivery],
        queue: DeliveryQueue,
        projects: Mapping[str, str | None],
        now: float,
    ) -> Iterator[Change]:
        """Yield the change that stores each new delivery. If too many deliveries wait for its
        receiver, a call-back is stored as given up and can be resent later; other webhooks are
        stopped instead. A progress call-back is dropped, since newer progress will follow."""
        coming: Counter[str] = Counter()
        for delivery in made:
            receiver = deliveries.receiver_of(delivery)
            waiting = queue.waiting_at(receiver) + coming[receiver]
            if not delivery.url or waiting < self._most_waiting or queue.is_waited_for(delivery):
                coming[receiver] += 1
                yield Change(rows=(delivery,))
            elif not delivery.is_passing:
                project_id = projects[delivery.webhook_id]
                log.info("receiver overflowed", receiver=receiver, delivery=delivery.id)
                yield deliveries.overflowed(
                    delivery, self._most_waiting, project_id=project_id, now=now
                )

    async def _put_waiting(self, ids: Sequence[str], queue: DeliveryQueue) -> None:
        """Queue those of these deliveries that still wait. The sender skips one that is settled
        meanwhile."""
        for delivery in await self._store.get_many(DELIVERIES, ids) if ids else ():
            if delivery.status is DeliveryStatus.WAITING:
                await self._put(delivery, queue)

    async def _put(self, delivery: Delivery, queue: DeliveryQueue) -> None:
        """Queue a delivery, and settle older ones that it supersedes."""
        queue.put(delivery)
        overtaken = queue.overtaken_by(delivery)
        if not overtaken:
            return
        now = self._system.now()
        old = await self._store.get_many(DELIVERIES, overtaken)
        changes = [
            deliveries.superseded(each, now=now)
            for each in old
            if each.status is DeliveryStatus.WAITING
        ]
        refusals = await self._state.commit_as_leader(changes)
        for change, refusal in zip(changes, refusals, strict=True):
            if refusal is None:
                queue.drop(change.of(Delivery)[0])

    async def _runs(self, wanted: Sequence[tuple[Webhook, Event]]) -> dict[str, Standing]:
        """Return the runs with a call-back, by id, with the rows of their steps."""
        ids = dict.fromkeys(
            event.subject
            for webhook, event in wanted
            if webhook.format is Format.CALLBACK and event.kind.startswith(OF_RUNS)
        )
        found: dict[str, Standing] = {}
        for id in ids:
            run = await self._store.get(RUNS, id)
            if run is not None and run.callback is not None:
                found[id] = run, await self._store.find(steps_of(id))
        return found

    async def _tasks(self, wanted: Sequence[tuple[Webhook, Event]]) -> dict[str, Task]:
        """Read the tasks that the events are about, for webhooks that need the task."""
        ids = dict.fromkeys(
            event.subject
            for webhook, event in wanted
            if webhooks.asks_for_task(webhook)
            and event.subject not in self._irrelevant_tasks
            and not event.kind.startswith(OF_RUNS)
        )
        # All of them: what concerns none of those that want these may concern another later.
        asking = [each for each in (self.webhooks or {}).values() if webhooks.asks_for_task(each)]
        found: dict[str, Task] = {}
        unknown = [*ids]
        for first in range(0, len(unknown), TASKS_BATCH):
            for task in await self._store.tasks(unknown[first : first + TASKS_BATCH]):
                if any(webhooks.wants(webhook, task) for webhook in asking):
                    found[task.id] = task
                else:
                    self._irrelevant_tasks[task.id] = None
        while len(self._irrelevant_tasks) > REMEMBERED:
            self._irrelevant_tasks.popitem(last=False)
        return found

    async def _stop(self, webhook: Webhook) -> None:
        """Mark a webhook as full: no further events are stored for it until it is resumed."""
        cause = (
            f"{self._most_waiting} deliveries wait for it (`webhooks.most_waiting`); mend the "
            "receiver, then resume it"
        )
        change = webhooks.changed_webhook(
            webhook,
            msgspec.structs.replace(webhook, is_full=True),
            what="overflowed",
            now=self._system.now(),
            cause=cause,
        )
        assert change is not None, "nobody hears who is full"
        await self._state.commit_as_leader([change])
        log.warning("webhook overflowed", webhook=webhook.name, waiting=self._most_waiting)
        await self.look()


def _is_outdated(webhook: Webhook, event: Event, task: Task | None) -> bool:
    is_callback = webhook.format is Format.CALLBACK
    return is_callback and task is not None and callbacks.is_outdated(event, task)
