"""Webhooks as a feature of the master."""

from crawlfleet.control.kernel import Kernel
from crawlfleet.control.openings import Adapters, Feature, Loop
from crawlfleet.features.webhooks.progress_events import ProgressEvents
from crawlfleet.features.webhooks.secrets import WebhookSecrets
from crawlfleet.features.webhooks.sender import DeliverySender
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.features.webhooks.submission import CallbackCheck
from crawlfleet.features.webhooks.table import removed_webhooks, settled_deliveries
from crawlfleet.ports.sender import OutgoingMessage, SendResult
from crawlfleet.ports.tables import Expiring


def webhooks(kernel: Kernel, adapters: Adapters) -> Feature:
    """Build the webhook feature: deliveries to people and programs outside the fleet."""
    store, state, system = kernel.store, kernel.state, kernel.system
    settings = kernel.settings.webhooks
    sender = adapters.sender or _NoSender()
    secrets = WebhookSecrets(adapters.seal)
    service = Webhooks(
        store=store,
        state=state,
        system=system,
        sender=sender,
        secrets=secrets,
        allow_private=settings.allow_private,
    )
    deliveries = DeliverySender(
        store=store, state=state, system=system, settings=settings, sender=sender, secrets=secrets
    )
    progress = ProgressEvents(
        store=store,
        state=state,
        system=system,
        every_s=settings.progress_s,
        sum_up=kernel.logs.sum_up,
    )
    kernel.logs.on_progress(progress.note)
    return Feature(
        services=(service,),
        checks=(CallbackCheck(store=store, allow_private=settings.allow_private),),
        hearers=(deliveries,),
        loops=(Loop("deliveries", deliveries.run),),
        expiring=(
            Expiring(kernel.settings.retention.deliveries_days, settled_deliveries),
            Expiring(kernel.settings.retention.deliveries_days, removed_webhooks),
        ),
        close=sender.close,
    )


class _NoSender:
    """The sender of a master that has none, such as one of a simulation."""

    async def send(self, message: OutgoingMessage) -> SendResult:
        return SendResult(error=f"this master has no sender for {message.id}", is_final=True)

    async def close(self) -> None:
        """Do nothing: there are no connections."""
