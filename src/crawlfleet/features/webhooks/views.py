"""Requests and answers about webhooks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Format, Webhook
from crawlfleet.model.task import without_query
from crawlfleet.views.fields import instant, moment

MAX_RESENT: Final = 1000
Grace = Annotated[float, Meta(ge=0, le=604_800)]


class WebhookRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receiver of events to create."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    url: str = ""
    """Receiver: `https://…`, or `mailto:…` for the format `email`. For `workflow` it is the address
    before `/workflowInstances/…`; for `callback` it is the address that all call-backs must begin
    with, and any address is allowed when it is left out."""
    format: Format = Format.EVENTS
    """`events` as JSON, call-backs to a `workflow` engine, `callback` for those of tasks and runs
    with a `callback_url`, or `email`."""
    project_id: str | None = None
    """Send only events of this project; of all projects when not set."""
    kinds: Annotated[list[str], Meta(max_length=50)] = []
    """Beginnings of the kinds of events to send, such as `task.failed` or `node.`; all when
    empty."""
    node_id: str | None = None
    """Send only events about this node."""
    task_type: str | None = None
    """Send only events of tasks of this type."""
    description: str = ""
    paused: bool = False
    """Create the webhook paused."""


class WebhookPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a webhook: a field that is left out stays as it is, `null` unsets an optional
    one."""

    url: str | UnsetType = UNSET
    kinds: Annotated[list[str], Meta(max_length=50)] | UnsetType = UNSET
    node_id: str | UnsetType | None = UNSET
    task_type: str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET


class WebhookRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    grace_s: Grace = 86_400.0
    """Seconds for which deliveries are signed with the previous secret, too."""


class ResendRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The deliveries to send again."""

    ids: Annotated[list[str], Meta(max_length=MAX_RESENT)] = []
    """Ids of deliveries; when empty, up to 1,000 deliveries that were given up, oldest first."""


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secret."""

    id: str
    name: str
    project_id: str | None
    url: str
    format: str
    status: str
    """`active`, or `paused`: nothing is sent, but events are kept."""
    is_full: bool
    """True if the queue of deliveries is full: no more are kept until the webhook is resumed."""
    cause: str
    """Reason of this state in words, such as `paused by admin`."""
    kinds: list[str]
    node_id: str | None
    task_type: str | None
    description: str
    created_at: datetime
    updated_at: datetime
    version: int

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """Return the view, without the secret."""
        return cls(**_webhook(webhook))


class WebhookDetails(WebhookView, frozen=True, kw_only=True):
    """A webhook with the number of its deliveries in each state."""

    waiting: int
    delivered: int
    """Delivered ones that are still kept."""
    dead: int
    superseded: int = 0
    """Call-backs that were replaced by newer ones before they were delivered."""

    @classmethod
    def with_counts(cls, webhook: Webhook, counts: Mapping[DeliveryStatus, int]) -> Self:
        return cls(
            **_webhook(webhook),
            waiting=counts.get(DeliveryStatus.WAITING, 0),
            delivered=counts.get(DeliveryStatus.DELIVERED, 0),
            dead=counts.get(DeliveryStatus.DEAD, 0),
            superseded=counts.get(DeliveryStatus.SUPERSEDED, 0),
        )


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with its secret, which is in this answer and nowhere else."""

    webhook: WebhookView
    secret: str
    """The secret; empty when the webhook existed before."""


class WebhookPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WebhookView]
    next_cursor: str | None


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to a webhook."""

    id: str
    """Id of the delivery, the same for each attempt."""
    webhook_id: str
    kind: str
    subject: str
    seq: int
    """The number of the event."""
    status: Literal["waiting", "delivered", "dead", "superseded"]
    attempts: int
    created_at: datetime
    due_at: datetime | None
    """Time of the next attempt; only while the delivery waits."""
    last_at: datetime | None
    last_status: int
    """HTTP status of the receiver's last answer; 0 for no answer."""
    last_error: str
    settled_at: datetime | None

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        return cls(**_delivery(delivery))


class DeliveryDetails(DeliveryView, frozen=True, kw_only=True):
    """A delivery with its content."""

    path: str
    """Path that is added to the webhook's URL, or to the delivery's own `url`."""
    url: str = ""
    """Receiver of a call-back; the webhook's URL when empty."""
    body: Any

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        body = msgspec.json.decode(delivery.body)
        url = without_query(delivery.url)
        return cls(**_delivery(delivery), path=delivery.path, url=url, body=body)


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[DeliveryView]
    next_cursor: str | None


class ResendReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request to send deliveries again."""

    resent: int
    unchanged: int
    """Deliveries that were waiting already."""
    unknown: list[str]
    more: bool = False
    """True if more deliveries that were given up are left."""


class WebhookTest(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test message to a webhook."""

    delivered: bool
    status: int
    """HTTP status of the receiver's answer; 0 for no answer."""
    error: str
    elapsed_s: float


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
