"""The tables of webhooks, of what is on its way to them, and of rules for alerts."""

from typing import Final

from sqlalchemy import Index, Table

from crawlfleet.adapters.store.sql.columns import (
    id_column,
    json_column,
    metadata,
    number_column,
    partial_index,
    real_column,
    text_column,
)

webhooks: Final = Table(
    "crawler_webhooks",
    metadata,
    id_column(),
    text_column("name"),
    text_column("project_id", null=True),
    text_column("status"),
    real_column("created_at"),
    real_column("updated_at"),
    real_column("removed_at", null=True),
    number_column("version"),
    json_column("options"),
)
partial_index(
    "ix_webhooks_removed",
    webhooks.c.removed_at,
    webhooks.c.id,
    where=webhooks.c.removed_at.is_not(None),
)

deliveries: Final = Table(
    "crawler_deliveries",
    metadata,
    id_column(),
    text_column("webhook_id"),
    text_column("subject"),
    text_column("kind"),
    number_column("seq"),
    text_column("status"),
    real_column("created_at"),
    real_column("due_at"),
    text_column("body"),
    real_column("settled_at", null=True),
    number_column("version"),
    json_column("options"),
)
Index("ix_deliveries_webhook", deliveries.c.webhook_id, deliveries.c.status, deliveries.c.id)
UNDER_WAY: Final = deliveries.c.settled_at.is_(None)
partial_index("ix_deliveries_waiting", deliveries.c.id, where=UNDER_WAY)
partial_index(
    "ix_deliveries_settled",
    deliveries.c.settled_at,
    deliveries.c.id,
    where=deliveries.c.settled_at.is_not(None),
)

alert_rules: Final = Table(
    "crawler_alert_rules",
    metadata,
    id_column(),
    text_column("name"),
    text_column("project_id", null=True),
    real_column("created_at"),
    real_column("updated_at"),
    real_column("removed_at", null=True),
    number_column("version"),
    json_column("options"),
)
