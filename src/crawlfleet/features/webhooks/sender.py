"""Sends the deliveries of webhooks while this master leads.

Each delivery is sent until it is answered with 2xx or given up; deliveries about one subject are
sent in order, one at a time. The outcome is stored after the sending: if the master dies in
between, the delivery is sent again under the same id.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.store_pause import STORE_PAUSE_S, StorePause
from crawlfleet.errors import StoreUnavailable
from crawlfleet.features.webhooks.fan_out import FanOut
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook
from crawlfleet.features.webhooks.queue import DeliveryQueue, QueuedDelivery, webhook_of
from crawlfleet.features.webhooks.rules import delivery as deliveries
from crawlfleet.features.webhooks.rules.delivery import DeliveryRetries
from crawlfleet.features.webhooks.secrets import WebhookSecrets
from crawlfleet.features.webhooks.table import DELIVERIES, waiting_deliveries
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.settings import WebhookSettings
from crawlfleet.ports.seal import Unsealable
from crawlfleet.ports.sender import Sender, SendResult
from crawlfleet.ports.store import Refusal, Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MAX_CONCURRENT_SENDS: Final = 32
PER_RECEIVER: Final = 8
PER_WEBHOOK: Final = 16
"""Maximum number of concurrent sends for one webhook: a slow receiver, or many call-backs, leave
room for the others."""
PORTION: Final = 200
LOOK_AGAIN_S: Final = 300.0
"""Maximum sleep in seconds: the clock may be set meanwhile."""


class DeliverySender:
    """Implements `crawlfleet.ports.events.EventSink`; `run` sends what was published."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        settings: WebhookSettings,
        sender: Sender,
        secrets: WebhookSecrets,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._sender = sender
        self._secrets = secrets
        self._patience = DeliveryRetries(
            max_attempts=settings.max_attempts,
            first_s=settings.first_retry_s,
            longest_s=settings.longest_retry_s,
        )
        self._wake = asyncio.Event()
        self._loaded = asyncio.Event()
        self._queue = DeliveryQueue()
        self._fan_out = FanOut(
            store=store,
            state=state,
            system=system,
            most_waiting=settings.most_waiting,
            ready=self._ready,
        )
        self._out: Counter[str] = Counter()
        """Number of sends under way, by receiver."""
        self._out_of: Counter[str] = Counter()
        """Number of sends under way, by webhook id."""
        self._waiting_receivers: dict[str, dict[str, None]] = {}
        """Receivers that are due while too many call-backs of their webhook are under way, by
        webhook id."""
        self._freed_webhooks: set[str] = set()
        """Webhooks with a send that has ended since the last round."""
        self._known: dict[str, Webhook] | None = None

    async def publish(self, events: Sequence[Event]) -> None:
        """Turn events into deliveries and wake the sender."""
        before = self._fan_out.webhooks
        await self._fan_out.publish(events)
        if self._fan_out.webhooks or before:
            self._wake.set()

    async def run(self) -> None:
        """Send deliveries until the lead is lost."""
        self._queue = DeliveryQueue()
        self._out.clear()
        self._out_of.clear()
        self._waiting_receivers.clear()
        try:
            await self._load()
            self._loaded.set()
            async with asyncio.TaskGroup() as group:
                while True:
                    self._wake.clear()
                    self._begin(group)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._wait_s()):
                            await self._wake.wait()
        finally:
            self._loaded.clear()
            self._fan_out.webhooks = None

    async def _ready(self) -> DeliveryQueue:
        await self._loaded.wait()
        return self._queue

    async def _load(self) -> None:
        """Load all waiting deliveries into the queue."""
        after: str | None = None
        while True:
            async with StorePause(log, "deliveries wait for the store") as store:
                if after is None:
                    await self._fan_out.look()
                portion = await self._store.find(waiting_deliveries(after=after, limit=PORTION))
            if store.has_failed:
                continue
            for delivery in portion:
                self._queue.put(delivery)
            if len(portion) < PORTION:
                return
            after = portion[-1].id

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """Start all sends that may begin now. The cost depends on their number, not on that of
        receivers."""
        now = self._system.now()
        if self._fan_out.webhooks is not self._known:
            # Somebody may have paused or resumed one.
            self._known = self._fan_out.webhooks
            self._waiting_receivers.clear()
            self._queue.mark_all_due()
        for webhook_id in [*self._freed_webhooks]:
            self._freed_webhooks.discard(webhook_id)
            parked = self._waiting_receivers.get(webhook_id, {})
            while parked and self._has_room_for_more(webhook_id):
                first = next(iter(parked))
                del parked[first]
                self._let_out(first, group, now)
        while self._out.total() < MAX_CONCURRENT_SENDS:
            receiver = self._queue.take_receiver(now)
            if receiver is None:
                break
            self._let_out(receiver, group, now)

    def _let_out(self, receiver: str, group: asyncio.TaskGroup, now: float) -> None:
        """Start the sends to one receiver that may begin now, and schedule it again for the
        rest."""
        webhook, webhook_id = self._webhook(receiver), webhook_of(receiver)
        shelf = self._queue.find(receiver)
        if shelf is None or (webhook is not None and webhook.is_held):
            return
        # One that fails and fails gets a single one.
        most = 1 if deliveries.rest_s(shelf.failures) else PER_RECEIVER
        while self._out[receiver] < most:
            if webhook_id != receiver and not self._has_room_for_more(webhook_id):
                self._waiting_receivers.setdefault(webhook_id, {})[receiver] = None
                return
            taken = shelf.take(now) if self._out.total() < MAX_CONCURRENT_SENDS else None
            if taken is None:
                self._queue.mark_due(receiver)
                break
            self._out[receiver] += 1
            self._out_of[webhook_id] += 1
            group.create_task(self._deal_with(receiver, taken), name=taken.id)
        if not self._out[receiver]:
            del self._out[receiver]

    def _has_room_for_more(self, webhook_id: str) -> bool:
        """Return true if one more call-back of a webhook may be under way."""
        return self._out_of[webhook_id] < PER_WEBHOOK

    def _wait_s(self) -> float | None:
        """Return the seconds until the next delivery is due; `None` if only an event can change
        that."""
        due = self._queue.next_due()
        if due is None or self._out.total() >= MAX_CONCURRENT_SENDS:
            return None
        return min(max(due - self._system.now(), 0.0), LOOK_AGAIN_S)

    def _webhook(self, receiver: str) -> Webhook | None:
        return (self._fan_out.webhooks or {}).get(webhook_of(receiver))

    async def _deal_with(self, receiver: str, taken: QueuedDelivery) -> None:
        again_at: float | None = self._system.now() + STORE_PAUSE_S
        try:
            again_at = await self._send(receiver, taken)
        except StoreUnavailable as error:
            log.warning("delivery not read", delivery=taken.id, error=str(error))
        finally:
            self._out[receiver] -= 1
            if not self._out[receiver]:
                del self._out[receiver]
            self._out_of[webhook_of(receiver)] -= 1
            self._freed_webhooks.add(webhook_of(receiver))
            self._queue.back(receiver, taken, again_at)
            self._wake.set()

    async def _send(self, receiver: str, taken: QueuedDelivery) -> float | None:
        """Send a delivery; return the time of its next attempt, `None` if there is none."""
        delivery = next(iter(await self._store.get_many(DELIVERIES, [taken.id])), None)
        if delivery is None or delivery.status is not DeliveryStatus.WAITING:
            return None
        webhook = self._webhook(receiver)
        if webhook is None or webhook.removed_at is not None:
            project_id = webhook.project_id if webhook else None
            change = _of_nobody(delivery, project_id, self._system.now())
            return await self._settle(delivery, change)
        sent = await self._hand_over(webhook, delivery)
        now = self._system.now()
        self._note(receiver, webhook, delivery, sent, now)
        chance = int.from_bytes(self._system.entropy(4), "big") / 2**32
        change = deliveries.attempted(
            delivery,
            sent,
            self._patience,
            project_id=webhook.project_id,
            now=now,
            chance=chance,
        )
        waits = change.of(Delivery)[0].status is DeliveryStatus.WAITING
        if waits and self._queue.shelf(receiver).is_overtaken(taken):
            change = deliveries.given_way(change.of(Delivery)[0], now=now)
        return await self._settle(delivery, change)

    async def _hand_over(self, webhook: Webhook, delivery: Delivery) -> SendResult:
        now = self._system.now()
        try:
            signing = self._secrets.opened(webhook, now)
            return await self._sender.send(deliveries.message_of(signing, delivery, now=now))
        except Unsealable as error:
            return SendResult(error=str(error))
        except Exception as error:
            # The delivery is durable: what it raises here would end each master that leads.
            log.exception("the sender failed", webhook=webhook.name, delivery=delivery.id)
            return SendResult(error=f"it cannot be sent: {type(error).__name__}: {error}")

    def _note(
        self, receiver: str, webhook: Webhook, delivery: Delivery, sent: SendResult, now: float
    ) -> None:
        """Record the outcome for a receiver, and pause it if it fails repeatedly."""
        shelf = self._queue.shelf(receiver)
        shelf.failures = 0 if sent.delivered else shelf.failures + 1
        shelf.rests_until = now + deliveries.rest_s(shelf.failures)
        if not sent.delivered:
            log.info(
                "not delivered",
                webhook=webhook.name,
                delivery=delivery.id,
                attempt=delivery.attempts + 1,
                error=sent.error,
            )

    async def _settle(self, delivery: Delivery, change: Change) -> float | None:
        refusals: list[Refusal | None] = []
        while not refusals:
            # Not sent once more for that: only its outcome has to be written.
            async with StorePause(log, "delivery not settled", delivery=delivery.id):
                refusals = await self._state.commit_as_leader([change])
        if refusals[0] is not None:
            # Somebody else has changed it, or it is written: it is looked at anew.
            return self._system.now()
        after = change.of(Delivery)[0]
        return after.due_at if after.status is DeliveryStatus.WAITING else None


def _of_nobody(delivery: Delivery, project_id: str | None, now: float) -> Change:
    tried = msgspec.structs.replace(
        delivery, version=delivery.version + 1, last_error="the webhook was removed"
    )
    return deliveries.given_up(
        tried, project_id=project_id, now=now, cause="the webhook was removed"
    )
