"""Webhooks for programs."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.client.http.ids import listed
from crawlfleet.features.webhooks.views import (
    DeliveryDetails,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    ResendReply,
    WebhookDetails,
    WebhookPage,
    WebhookTest,
    WebhookView,
)


class WebhookCalls(Calls):
    """Calls about webhooks, which send events to receivers outside of the fleet.

    With `if_version` a change is made only if that is still the version of the webhook;
    `PreconditionFailed` if not.
    """

    def webhooks(
        self,
        limit: int | None = None,
        *,
        project_id: str | None = None,
        name: str | None = None,
    ) -> AsyncIterator[WebhookView]:
        """Iterate over the webhooks, in order of their creation."""
        query = {"project_id": project_id, "name": name}
        return self._pages("/webhooks", WebhookPage, query, limit=limit)

    async def webhook(self, webhook_id: str) -> WebhookDetails:
        """Return one webhook, and the counts of its deliveries."""
        return await self._get(_path(webhook_id), WebhookDetails)

    async def create_webhook(self, name: str, url: str = "", **fields: Any) -> NewWebhook:
        """Create a webhook: it sends events of these `kinds`, of a `project_id`, and so on. With
        `format="callback"` it signs the callbacks of tasks and runs with a `callback_url`.

        The `secret` is shown this once. The same call again returns the same webhook, without the
        secret.
        """
        return await self._post("/webhooks", NewWebhook, {"name": name, "url": url, **fields})

    async def change_webhook(
        self, webhook_id: str, *, if_version: int | None = None, **fields: Any
    ) -> WebhookView:
        """Change its `url`, `kinds`, `node_id`, `task_type` or `description`."""
        return await self._patch(_path(webhook_id), WebhookView, fields, if_version)

    async def pause_webhook(self, webhook_id: str, *, if_version: int | None = None) -> WebhookView:
        """Pause a webhook: its deliveries wait."""
        return await self._post(f"{_path(webhook_id)}:pause", WebhookView, None, if_version)

    async def resume_webhook(
        self, webhook_id: str, *, if_version: int | None = None
    ) -> WebhookView:
        """Resume a paused webhook: its waiting deliveries are sent."""
        return await self._post(f"{_path(webhook_id)}:resume", WebhookView, None, if_version)

    async def remove_webhook(
        self, webhook_id: str, *, if_version: int | None = None
    ) -> WebhookView | None:
        """Remove a webhook; its waiting deliveries are given up. Returns `None` when the answer was
        lost, and the webhook is gone.
        """
        return await self._remove(f"{_path(webhook_id)}:remove", WebhookView, None, if_version)

    async def rotate_webhook(self, webhook_id: str, *, grace_s: float = 86_400.0) -> NewWebhook:
        """Replace the secret of a webhook. The call is not repeated by itself: only its answer has
        the secret.
        """
        path = f"{_path(webhook_id)}:rotate"
        return await self._post_once(path, NewWebhook, {"grace_s": grace_s})

    async def test_webhook(self, webhook_id: str) -> WebhookTest:
        """Send a test message to a webhook at once."""
        return await self._post_once(f"{_path(webhook_id)}:test", WebhookTest, None)

    def deliveries(
        self, webhook_id: str, limit: int | None = None, *, status: str | None = None
    ) -> AsyncIterator[DeliveryView]:
        """Iterate over a webhook's deliveries and their outcomes, newest event first."""
        path = f"{_path(webhook_id)}/deliveries"
        return self._pages(path, DeliveryPage, {"status": status}, limit=limit)

    async def delivery(self, webhook_id: str, delivery_id: str) -> DeliveryDetails:
        """Return one delivery, with its content."""
        path = f"{_path(webhook_id)}/deliveries/{segment(delivery_id)}"
        return await self._get(path, DeliveryDetails)

    async def resend_deliveries(
        self, webhook_id: str, ids: Iterable[str] | None = None
    ) -> ResendReply:
        """Send those with these `ids` once more, or up to 1,000 of those that were given up when
        no `ids` are given."""
        named = listed(ids)
        if ids is not None and not named:
            return ResendReply(resent=0, unchanged=0, unknown=[])
        return await self._post(f"{_path(webhook_id)}:resend", ResendReply, {"ids": named})


def _path(webhook_id: str) -> str:
    return f"/webhooks/{segment(webhook_id)}"
