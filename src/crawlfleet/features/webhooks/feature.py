"""All that tells people and programs outside of the fleet what happens in it."""

import asyncio
from collections.abc import Callable, Sequence

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.features.alerts.service import Alerts
from crawlfleet.features.alerts.watcher import AlertWatcher
from crawlfleet.features.webhooks.secrets import WebhookSecrets
from crawlfleet.features.webhooks.sender import DeliverySender
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.model.event import Event
from crawlfleet.model.settings import Settings
from crawlfleet.ports.courier import Sender
from crawlfleet.ports.seal import Seal
from crawlfleet.ports.sender import OutgoingMessage, SendResult
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System


class Telling:
    """Implements `crawlfleet.ports.events.EventSink`, for the master that leads."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        settings: Settings,
        courier: Sender | None,
        seal: Seal | None,
        disk_free: Callable[[], float | None],
    ) -> None:
        self._courier = courier or _Nobody()
        secrets = WebhookSecrets(seal)
        self.webhooks = Webhooks(
            store=store,
            state=state,
            system=system,
            courier=self._courier,
            secrets=secrets,
            allow_private=settings.webhooks.allow_private,
        )
        self._post = DeliverySender(
            store=store,
            state=state,
            system=system,
            settings=settings.webhooks,
            courier=self._courier,
            secrets=secrets,
        )
        self.alerts = Alerts(store=store, state=state, system=system)
        self._watch = AlertWatcher(store=store, state=state, system=system, disk_free=disk_free)

    async def publish(self, events: Sequence[Event]) -> None:
        """Hear what happened. Raises `LeadershipLost` or `StoreUnavailable`: then it has to come
        again."""
        await self._watch.publish(events)
        await self._post.publish(events)

    async def run(self) -> None:
        """Tell, until the lead is lost."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._post.run(), name="post")
            group.create_task(self._watch.run(), name="watch")

    async def close(self) -> None:
        """Let go of connections."""
        await self._courier.close()


class _Nobody:
    """The courier of a control plane that has none, such as one of a simulation."""

    async def send(self, parcel: OutgoingMessage) -> SendResult:
        return SendResult(error=f"this master has no courier for {parcel.id}", is_final=True)

    async def close(self) -> None:
        """There is nothing to let go of."""
