"""Webhooks and deliveries from the model to what the API shows."""

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook
from crawlfleet.features.webhooks.rules.callbacks import without_query
from crawlfleet.features.webhooks.views import (
    DeliveryDetails,
    DeliveryView,
    WebhookDetails,
    WebhookView,
)
from crawlfleet.views.presenting import instant, moment


def present_webhook(webhook: Webhook) -> WebhookView:
    """Without its secret, as everywhere."""
    return WebhookView(**_webhook(webhook))


def present_webhook_whole(webhook: Webhook, counts: Mapping[DeliveryStatus, int]) -> WebhookDetails:
    return WebhookDetails(
        **_webhook(webhook),
        waiting=counts.get(DeliveryStatus.WAITING, 0),
        delivered=counts.get(DeliveryStatus.DELIVERED, 0),
        dead=counts.get(DeliveryStatus.DEAD, 0),
        superseded=counts.get(DeliveryStatus.SUPERSEDED, 0),
    )


def _webhook(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "name": webhook.name,
        "project_id": webhook.project_id,
        "url": webhook.url,
        "format": str(webhook.format),
        "status": str(webhook.status),
        "is_full": webhook.is_full,
        "cause": webhook.cause,
        "kinds": [*webhook.kinds],
        "node_id": webhook.node_id,
        "task_type": webhook.task_type,
        "description": webhook.description,
        "created_at": moment(webhook.created_at),
        "updated_at": moment(webhook.updated_at),
        "version": webhook.version,
    }


def present_delivery(delivery: Delivery) -> DeliveryView:
    return DeliveryView(**_delivery(delivery))


def present_delivery_whole(delivery: Delivery) -> DeliveryDetails:
    body = msgspec.json.decode(delivery.body)
    url = without_query(delivery.url)
    return DeliveryDetails(**_delivery(delivery), path=delivery.path, url=url, body=body)


def _delivery(delivery: Delivery) -> dict[str, Any]:
    waits = delivery.status is DeliveryStatus.WAITING
    return {
        "id": delivery.id,
        "webhook_id": delivery.webhook_id,
        "kind": delivery.kind,
        "subject": delivery.subject,
        "seq": delivery.seq,
        "status": str(delivery.status),
        "attempts": delivery.attempts,
        "created_at": moment(delivery.created_at),
        "due_at": moment(delivery.due_at) if waits else None,
        "last_at": instant(delivery.last_at),
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
        "settled_at": instant(delivery.settled_at),
    }
