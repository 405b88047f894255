"""Webhooks, and the deliveries of events to them.

A *webhook* is a receiver of events. A *delivery* is one event for one webhook; its id follows from
both, so it is the same however often it is sent.
"""

from enum import StrEnum

import msgspec

from crawlfleet.model.task import EMPTY_OBJECT, UPDATE


class Format(StrEnum):
    """What a webhook is sent, and how."""

    EVENTS = "events"
    """Each event as a JSON document."""
    WORKFLOW = "workflow"
    """Tasks of a workflow engine's instances: `:update` while they are under way, `:complete` when
    they have ended."""
    EMAIL = "email"
    """Each event as an e-mail."""
    CALLBACK = "callback"
    """Tasks and runs that were submitted with a `callback_url`, each to its own address. The
    webhook's URL, when it has one, is where such addresses must lead."""


class WebhookStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing is sent; deliveries are stored until the webhook is resumed."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of events. `version` grows with each committed change."""

    id: str
    name: str
    created_at: float
    updated_at: float
    project_id: str | None = None
    """The project whose events are delivered; all projects when not set."""
    status: WebhookStatus = WebhookStatus.ACTIVE
    url: str = ""
    format: Format = Format.EVENTS
    kinds: tuple[str, ...] = ()
    """Prefixes of the kinds of events that are delivered; all kinds when empty."""
    node_id: str | None = None
    """The node whose events are delivered; all nodes when not set."""
    task_type: str | None = None
    """The type of the tasks whose events are delivered; all types when not set."""
    description: str = ""
    cause: str = ""
    """User or process that brought the webhook into this state, and the reason."""
    is_full: bool = False
    """Set when too many deliveries wait: no further events are stored until the webhook is
    resumed."""
    secret: str = ""
    """Secret that signs deliveries. It is stored sealed, and shown only when it is made."""
    old_secret: str = ""
    """Previous secret, which also signs deliveries until `old_until`."""
    old_until: float = 0.0
    removed_at: float | None = None
    version: int = 1

    @property
    def is_heard(self) -> bool:
        """Return true if new events are stored for the webhook: it is neither removed nor full."""
        return self.removed_at is None and not self.is_full

    @property
    def is_held(self) -> bool:
        """Return true if the deliveries of the webhook are held back: it is paused."""
        return self.removed_at is None and self.status is WebhookStatus.PAUSED

    def secrets(self, now: float) -> tuple[str, ...]:
        """Return the secrets that a receiver may know at this moment, the newest first."""
        return (self.secret, self.old_secret) if now < self.old_until else (self.secret,)


class DeliveryStatus(StrEnum):
    WAITING = "waiting"
    """The delivery is under way, or will be tried again."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """The delivery was given up; a user may send it again."""
    SUPERSEDED = "superseded"
    """The delivery was replaced, before it arrived, by a newer one about the same subject."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event for a webhook. Deliveries about one `subject` arrive in order of `seq`."""

    id: str
    webhook_id: str
    subject: str
    kind: str
    seq: int
    """The number of the event."""
    created_at: float
    due_at: float
    status: DeliveryStatus = DeliveryStatus.WAITING
    body: msgspec.Raw = EMPTY_OBJECT
    path: str = ""
    """Path that is added to the webhook's URL, or to `url`."""
    url: str = ""
    """Address of the receiver; the webhook's URL when not set."""
    attempts: int = 0
    last_at: float | None = None
    """Time of the last attempt."""
    last_status: int = 0
    """HTTP status of the last answer; 0 for no answer."""
    last_error: str = ""
    settled_at: float | None = None
    """Time at which the delivery was delivered, given up or superseded."""
    version: int = 1

    @property
    def is_passing(self) -> bool:
        """Return true if the delivery can be dropped once there is a newer one about the same
        subject."""
        return bool(self.url) and self.path == UPDATE


def delivery_id(webhook_id: str, seq: int) -> str:
    """The one name of an event on its way to a webhook. Those of a webhook sort by the event."""
    return f"dlv-{webhook_id.partition('-')[2]}-{seq:015d}"
