"""Who is told of what happens, and what became of each telling.

A *webhook* is a place that wants to hear of events. A *delivery* is one event on its way to one
webhook; its id follows from both, so that it is the same however often it is sent.
"""

from enum import StrEnum

import msgspec

from crawlfleet.model.task import EMPTY_OBJECT, UPDATE


class Format(StrEnum):
    """What a webhook is sent, and how."""

    EVENTS = "events"
    """Each event as it is, as a JSON document."""
    WORKFLOW = "workflow"
    """What a workflow engine wants to know of the tasks of its instances: `:update` while they
    are under way, `:complete` when they have ended."""
    EMAIL = "email"
    """Each event as a letter to people."""
    CALLBACK = "callback"
    """Tasks and runs that were submitted with a `callback_url`, each to its own address. The
    webhook's URL, when it has one, is where such addresses must lead."""


class WebhookStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """Nothing is sent; what happens is kept for it."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A place that is told of events. `version` grows with each committed change."""

    id: str
    name: str
    created_at: float
    updated_at: float
    project_id: str | None = None
    """Only what belongs to this project; everything when not set."""
    status: WebhookStatus = WebhookStatus.ACTIVE
    url: str = ""
    format: Format = Format.EVENTS
    kinds: tuple[str, ...] = ()
    """How the kinds of events begin that are wanted; all when empty."""
    node_id: str | None = None
    """Only what has to do with this node."""
    task_type: str | None = None
    """Only events of tasks of this type."""
    description: str = ""
    cause: str = ""
    """Who put it into this state, and why."""
    is_full: bool = False
    """Too much waits for it: nothing more is kept for it until it is resumed."""
    secret: str = ""
    """Deliveries are signed with it: it is stored sealed, and shown only when it is made."""
    old_secret: str = ""
    """The one before, with which they are signed, too, until `old_until`."""
    old_until: float = 0.0
    removed_at: float | None = None
    version: int = 1

    @property
    def is_heard(self) -> bool:
        """Whether what happens is kept for it."""
        return self.removed_at is None and not self.is_full

    @property
    def is_held(self) -> bool:
        """Whether what waits for it stays where it is."""
        return self.removed_at is None and self.status is WebhookStatus.PAUSED

    def secrets(self, now: float) -> tuple[str, ...]:
        """Those that a receiver may know at this moment, the newest first."""
        return (self.secret, self.old_secret) if now < self.old_until else (self.secret,)


class DeliveryStatus(StrEnum):
    WAITING = "waiting"
    """It is on its way, or will be tried again."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """It was given up; somebody may send it again."""
    SUPERSEDED = "superseded"
    """It had not arrived when something newer of the same thing was there to be told instead."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event on its way to a webhook. What is about one `subject` arrives in order of `seq`."""

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
    """What is added to the webhook's URL, or to its own."""
    url: str = ""
    """Where it goes; to the webhook's URL when not set."""
    attempts: int = 0
    last_at: float | None = None
    """When it was tried last."""
    last_status: int = 0
    """What the receiver answered then; 0 for no answer."""
    last_error: str = ""
    settled_at: float | None = None
    """When it was delivered, or given up."""
    version: int = 1

    @property
    def is_passing(self) -> bool:
        """Whether nobody needs it once there is something newer of the same thing."""
        return bool(self.url) and self.path == UPDATE


def delivery_id(webhook_id: str, seq: int) -> str:
    """The one name of an event on its way to a webhook. Those of a webhook sort by the event."""
    return f"dlv-{webhook_id.partition('-')[2]}-{seq:015d}"
