"""Webhooks as they are asked for and shown."""

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
    """A place that is to be told of events."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    url: str = ""
    """Where to: `https://…`, or `mailto:…` for the format `email`. A workflow engine's is the one
    that `/workflowInstances/…` is added to; for `callback` it is where all call-backs must lead,
    anywhere when it is left out."""
    format: Format = Format.EVENTS
    """`events` as JSON, call-backs to a `workflow` engine, `callback` for those of tasks and runs
    with a `callback_url`, or `email`."""
    project_id: str | None = None
    """Only what belongs to this project; everything when not set."""
    kinds: Annotated[list[str], Meta(max_length=50)] = []
    """How the kinds begin that are wanted, such as `task.failed` or `node.`; all when empty."""
    node_id: str | None = None
    """Only what has to do with this node."""
    task_type: str | None = None
    """Only events of tasks of this type."""
    description: str = ""
    paused: bool = False
    """Make it without letting it begin."""


class WebhookPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; the rest stays. `null` takes back what need not be set."""

    url: str | UnsetType = UNSET
    kinds: Annotated[list[str], Meta(max_length=50)] | UnsetType = UNSET
    node_id: str | UnsetType | None = UNSET
    task_type: str | UnsetType | None = UNSET
    description: str | UnsetType = UNSET


class WebhookRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    grace_s: Grace = 86_400.0
    """For so long deliveries are signed with the secret before, too."""


class ResendRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries to send again."""

    ids: Annotated[list[str], Meta(max_length=MAX_RESENT)] = []
    """These; up to 1,000 of those that were given up, the oldest first, when empty."""


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook; never its secret."""

    id: str
    name: str
    project_id: str | None
    url: str
    format: str
    status: str
    """`active`, or `paused`: then nothing is sent, and what happens is kept."""
    is_full: bool
    """Too much waits for it: nothing more is kept until it is resumed."""
    cause: str
    """Who put it into this state, or what."""
    kinds: list[str]
    node_id: str | None
    task_type: str | None
    description: str
    created_at: datetime
    updated_at: datetime
    version: int

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """Without its secret, as everywhere."""
        return cls(**_webhook(webhook))


class WebhookDetails(WebhookView, frozen=True, kw_only=True):
    """The same with how its deliveries stand."""

    waiting: int
    delivered: int
    """Of those that are kept."""
    dead: int
    superseded: int = 0
    """Call-backs that gave way to something newer before they had arrived."""

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
    """Empty when the webhook was there before."""


class WebhookPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WebhookView]
    next_cursor: str | None


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to a webhook."""

    id: str
    """The same each time it is sent."""
    webhook_id: str
    kind: str
    subject: str
    seq: int
    """The number of the event."""
    status: Literal["waiting", "delivered", "dead", "superseded"]
    attempts: int
    created_at: datetime
    due_at: datetime | None
    """When it is tried next; only while it waits."""
    last_at: datetime | None
    last_status: int
    """What the receiver answered last; 0 for no answer."""
    last_error: str
    settled_at: datetime | None

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        return cls(**_delivery(delivery))


class DeliveryDetails(DeliveryView, frozen=True, kw_only=True):
    """The same with what is sent."""

    path: str
    """What is added to the webhook's URL, or to its own."""
    url: str = ""
    """Where it goes, of a call-back; to the webhook's URL when empty."""
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
    """What became of an order to send again."""

    resent: int
    unchanged: int
    """Those that wait already."""
    unknown: list[str]
    more: bool = False
    """Whether there are more that were given up."""


class WebhookTest(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook made of a message that was sent to it at once."""

    delivered: bool
    status: int
    """What the receiver answered; 0 for no answer."""
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
