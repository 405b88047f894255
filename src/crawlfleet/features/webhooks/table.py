"""The tables of webhooks and their deliveries, and queries on them."""

from typing import Final

from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook
from crawlfleet.ports.tables import (
    Index,
    Query,
    Table,
    above,
    among,
    below,
    equal,
    is_set,
    is_unset,
)

WEBHOOKS: Final = Table(
    Webhook,
    "crawler_webhooks",
    columns=(
        "id",
        "name",
        "project_id",
        "status",
        "created_at",
        "updated_at",
        "removed_at",
        "version",
    ),
    indexes=(Index("ix_webhooks_removed", ("removed_at", "id"), is_set("removed_at")),),
)
DELIVERIES: Final = Table(
    Delivery,
    "crawler_deliveries",
    columns=(
        "id",
        "webhook_id",
        "subject",
        "kind",
        "seq",
        "status",
        "created_at",
        "due_at",
        "body",
        "settled_at",
        "version",
    ),
    indexes=(
        Index("ix_deliveries_webhook", ("webhook_id", "status", "id")),
        Index("ix_deliveries_waiting", ("id",), is_unset("settled_at")),
        Index("ix_deliveries_settled", ("settled_at", "id"), is_set("settled_at")),
    ),
)


def deliveries_to(
    webhook_id: str,
    status: DeliveryStatus | None = None,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> Query[Delivery]:
    """Deliveries of a webhook with an id below `after`, the newest event first."""
    states = [*DeliveryStatus] if status is None else [status]
    return DELIVERIES.where(
        equal("webhook_id", webhook_id),
        among("status", states),
        below("id", after),
        newest_first=True,
        limit=limit,
    )


def waiting_deliveries(*, after: str | None, limit: int) -> Query[Delivery]:
    """Deliveries of all webhooks that wait, with an id above `after`."""
    return DELIVERIES.where(is_unset("settled_at"), above("id", after), limit=limit)


def settled_deliveries(*, before: float, limit: int) -> Query[Delivery]:
    """Deliveries that were settled before then, the oldest first."""
    return DELIVERIES.where(below("settled_at", before), order=("settled_at", "id"), limit=limit)


def removed_webhooks(*, before: float, limit: int) -> Query[Webhook]:
    """Webhooks that were removed before then, the oldest first. Their deliveries go when their own
    time has come."""
    return WEBHOOKS.where(below("removed_at", before), order=("removed_at", "id"), limit=limit)
