"""The statements about webhooks and what is on its way to them."""

from typing import Generic

from sqlalchemy import bindparam, delete, func, select

from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.schema import UNDER_WAY, deliveries, webhooks


class WebhookStatements(Generic[T]):
    """All of them in one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        finish = dialect.finish
        after = bindparam("after", type_=deliveries.c.id.type)
        of_webhook = (
            select(deliveries)
            .where(deliveries.c.webhook_id == bindparam("webhook_id"))
            .where(deliveries.c.status == bindparam("status"))
            .order_by(deliveries.c.id.desc())
        )
        self.deliveries = finish(limited(of_webhook))
        self.deliveries_before = finish(limited(of_webhook.where(deliveries.c.id < after)))
        waiting = select(deliveries).where(UNDER_WAY).order_by(deliveries.c.id)
        self.waiting = finish(limited(waiting))
        self.waiting_after = finish(limited(waiting.where(deliveries.c.id > after)))
        self.count_deliveries = finish(
            select(deliveries.c.status, func.count())
            .where(deliveries.c.webhook_id == bindparam("webhook_id"))
            .group_by(deliveries.c.status)
        )
        settled = limited(
            select(deliveries.c.id)
            .where(deliveries.c.settled_at < bindparam("before"))
            .order_by(deliveries.c.settled_at, deliveries.c.id)
        ).subquery()
        self.settled_deliveries = finish(select(dialect.collect(settled.c.id)))
        self.remove_deliveries = finish(
            delete(deliveries).where(dialect.among_given(deliveries.c.id, "ids"))
        )
        gone = limited(
            select(webhooks.c.id)
            .where(webhooks.c.removed_at < bindparam("before"))
            .order_by(webhooks.c.removed_at, webhooks.c.id)
        ).subquery()
        self.removed_webhooks = finish(select(dialect.collect(gone.c.id)))
        self.remove_webhooks = finish(
            delete(webhooks).where(dialect.among_given(webhooks.c.id, "ids"))
        )
