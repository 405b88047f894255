"""The service for webhooks: create, read, change, pause, test, remove; and their deliveries.

Webhooks are read from the store on each request: there are few, and only the leading master needs
them all the time (`features.webhooks.fan_out`).
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from crawlfleet.control.access.tokens import make_secret
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook, WebhookStatus
from crawlfleet.features.webhooks.rules import delivery as deliveries
from crawlfleet.features.webhooks.rules import webhooks
from crawlfleet.features.webhooks.secrets import WebhookSecrets
from crawlfleet.features.webhooks.table import DELIVERIES, WEBHOOKS, deliveries_to
from crawlfleet.features.webhooks.views import (
    MAX_RESENT,
    ResendReply,
    WebhookPatch,
    WebhookRequest,
)
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.ids import WEBHOOK, make_id
from crawlfleet.model.task import Callback, Task
from crawlfleet.ports.seal import Unsealable
from crawlfleet.ports.sender import Sender, SendResult
from crawlfleet.ports.store import RefusalKind, Store
from crawlfleet.ports.system import System

MAX_WEBHOOKS: Final = 200
"""Maximum number of webhooks; each event is matched against all of them."""


class Webhooks:
    """Creates, reads, changes, tests and removes webhooks."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        sender: Sender,
        secrets: WebhookSecrets,
        allow_private: bool,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._sender = sender
        self._secrets = secrets
        self._allow_private = allow_private

    async def get(self, webhook_id: str) -> Webhook:
        """The webhook, or `NotFound`."""
        found = await self._store.get(WEBHOOKS, webhook_id)
        if found is None or found.removed_at is not None:
            raise NotFound("webhook", webhook_id)
        return found

    async def page(
        self, *, after: str | None, limit: int, project_id: str | None, name: str | None
    ) -> list[Webhook]:
        """Up to `limit` webhooks beyond an id, in order of id."""
        found = [
            each
            for each in await self._store.find(WEBHOOKS.where())
            if each.removed_at is None
            and (after is None or each.id > after)
            and project_id in (None, each.project_id)
            and name in (None, each.name)
        ]
        return found[:limit]

    async def counts(self, webhook_id: str) -> dict[DeliveryStatus, int]:
        """Return the number of deliveries of a webhook by status."""
        return await self._store.count(deliveries_to(webhook_id), "status")

    async def create(self, request: WebhookRequest, *, by: str) -> tuple[Webhook, str]:
        """The webhook and its secret; without one if it was there before. `Conflict` if another
        has the name."""
        accept(webhooks.problems_of(request, allow_private=self._allow_private))
        present = [
            each for each in await self._store.find(WEBHOOKS.where()) if each.removed_at is None
        ]
        if len(present) >= MAX_WEBHOOKS:
            raise Conflict(f"there are {MAX_WEBHOOKS} webhooks already; remove one first")
        now = self._system.now()
        id = make_id(WEBHOOK, now, self._system.entropy)
        secret = make_secret(self._system)
        change = webhooks.new_webhook(
            request,
            id=id,
            secret=self._secrets.closed(secret, id),
            now=now,
            cause=f"created by {by}",
        )
        (made,) = change.of(Webhook)
        (refusal,) = await self._state.commit([change])
        if refusal is None:
            return made, secret
        if refusal.kind is not RefusalKind.CLAIM or refusal.claim is None:
            raise has_changed(made.id)
        there = await self.get(refusal.claim.holder)
        if webhooks.essence(there) != webhooks.essence(made):
            raise Conflict(
                f"there is a webhook {request.name!r} already ({there.id}); PATCH changes it, or "
                "choose another name"
            )
        return there, ""

    async def change(
        self, webhook_id: str, patch: WebhookPatch, *, by: str, if_version: int | None = None
    ) -> Webhook:
        """Apply a patch to a webhook; waiting deliveries go to the new URL, too."""

        def decide(webhook: Webhook, now: float) -> Change | None:
            after = webhooks.patched(webhook, patch)
            accept(webhooks.problems_of(after, allow_private=self._allow_private))
            return webhooks.changed_webhook(
                webhook, after, what="changed", now=now, cause=f"changed by {by}"
            )

        return await self._make(webhook_id, decide, if_version)

    async def move(
        self, webhook_id: str, status: WebhookStatus, *, by: str, if_version: int | None = None
    ) -> Webhook:
        """Pause the deliveries of a webhook, or resume them."""
        resumed = status is WebhookStatus.ACTIVE
        verb = "resumed" if resumed else "paused"

        def decide(webhook: Webhook, now: float) -> Change | None:
            is_full = webhook.is_full and not resumed
            after = msgspec.structs.replace(webhook, status=status, is_full=is_full)
            return webhooks.changed_webhook(
                webhook, after, what=verb, now=now, cause=f"{verb} by {by}"
            )

        return await self._make(webhook_id, decide, if_version)

    async def rotate(self, webhook_id: str, *, grace_s: float, by: str) -> tuple[Webhook, str]:
        """Give a webhook a new secret."""
        secret = make_secret(self._system)
        closed = self._secrets.closed(secret, webhook_id)

        def decide(webhook: Webhook, now: float) -> Change:
            return webhooks.rotated_webhook(
                webhook, secret=closed, grace_s=grace_s, now=now, cause=f"rotated by {by}"
            )

        return await self._make(webhook_id, decide, None), secret

    async def remove(self, webhook_id: str, *, by: str, if_version: int | None = None) -> Webhook:
        """Remove a webhook; its waiting deliveries are given up."""

        def decide(webhook: Webhook, now: float) -> Change:
            return webhooks.removed_webhook(webhook, now=now, cause=f"removed by {by}")

        return await self._make(webhook_id, decide, if_version)

    async def test(self, webhook_id: str, *, by: str) -> SendResult:
        """Send a test message to a webhook at once, outside its queue."""
        webhook = await self.get(webhook_id)
        if not webhook.url:
            raise Conflict(
                f"{webhook.name} has no address of its own: submit a task with a callback_url"
            )
        now = self._system.now()
        told = webhooks.event_of("tried", webhook, now, f"tried by {by}")
        try:
            signing = self._secrets.opened(webhook, now)
        except Unsealable as error:
            sent = SendResult(error=str(error))
        else:
            message = deliveries.message_of(signing, _trial(webhook, told), now=now)
            sent = await self._sender.send(message)
        outcome = {"delivered": sent.delivered, "status": sent.status, "error": sent.error[:200]}
        event = msgspec.structs.replace(told, details={**told.details, **outcome})
        await self._state.commit([Change(events=(event,))])
        return sent

    async def deliveries(
        self, webhook_id: str, status: DeliveryStatus | None, *, after: str | None, limit: int
    ) -> list[Delivery]:
        """Return the deliveries of a webhook, the newest event first."""
        await self.get(webhook_id)
        return await self._store.find(deliveries_to(webhook_id, status, after=after, limit=limit))

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Return a delivery of a webhook; raises `NotFound`."""
        await self.get(webhook_id)
        found = next(iter(await self._store.get_many(DELIVERIES, [delivery_id])), None)
        if found is None or found.webhook_id != webhook_id:
            raise NotFound("delivery", delivery_id)
        return found

    async def resend(self, webhook_id: str, ids: Sequence[str], *, by: str) -> ResendReply:
        """Send deliveries once more; without `ids` those that were given up, the oldest first."""
        project_id = (await self.get(webhook_id)).project_id
        more = False
        if ids:
            found = [
                each
                for each in await self._store.get_many(DELIVERIES, [*ids])
                if each.webhook_id == webhook_id
            ]
        else:
            # The store lists the newest first.
            found, after = [], None
            while portion := await self._store.find(
                deliveries_to(webhook_id, DeliveryStatus.DEAD, after=after, limit=MAX_RESENT)
            ):
                more = more or bool(found)
                found, after = [*portion[::-1], *found][:MAX_RESENT], portion[-1].id
        now = self._system.now()
        cause = f"resent by {by}"
        decided = [
            deliveries.resent(each, project_id=project_id, now=now, cause=cause) for each in found
        ]
        changes = [change for change in decided if change is not None]
        refusals = await self._state.commit(changes)
        made = sum(refusal is None for refusal in refusals)
        return ResendReply(
            resent=made,
            unchanged=len(found) - made,
            unknown=sorted({*ids} - {each.id for each in found}),
            more=more,
        )

    async def _make(
        self,
        webhook_id: str,
        decide: Callable[[Webhook, float], Change | None],
        if_version: int | None,
    ) -> Webhook:
        async def present() -> tuple[Webhook, Change | None]:
            webhook = await self.get(webhook_id)
            change = decide(webhook, self._system.now())
            if change is None:
                return webhook, None
            expect_version(webhook_id, webhook.version, if_version)
            return change.of(Webhook)[0], change

        return await self._state.decide(webhook_id, present)


def _trial(webhook: Webhook, event: Event) -> Delivery:
    """Return the test delivery for a webhook, about a made-up task if its format needs one."""
    task = None
    if webhook.format in webhooks.OF_TASKS:
        task = Task(
            id="task-test",
            project_id=webhook.project_id or "default",
            task_type=webhook.task_type or "test",
            workflow_id="test",
            callback=Callback(url=webhook.url, webhook_id=webhook.id),
            created_at=event.at,
            updated_at=event.at,
        )
        event = msgspec.structs.replace(event, subject=task.id, to_state=str(task.status))
    return deliveries.delivery_of(webhook, event, task, now=event.at)
