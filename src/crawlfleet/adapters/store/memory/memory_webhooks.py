"""Webhooks, deliveries and rules for alerts in plain dictionaries: a part of the memory store."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.memory.copies import share_all
from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook


class MemoryWebhooks:
    """Implements `crawlfleet.ports.webhooks.Webhooks`."""

    _present: Present

    def __init__(self) -> None:
        self._webhooks: Table[Webhook] = Table()
        self._deliveries: Table[Delivery] = Table()
        self._alert_rules: Table[AlertRule] = Table()

    async def webhooks(self) -> list[Webhook]:
        self._need_open()
        return share_all(self._webhooks)

    async def webhook(self, id: str) -> Webhook | None:
        self._need_open()
        return self._webhooks.rows.get(id)

    async def deliveries_among(self, ids: Sequence[str]) -> list[Delivery]:
        self._need_open()
        rows = self._deliveries.rows
        return share_all(rows[id] for id in sorted({*ids}) if id in rows)

    async def find_deliveries(
        self, webhook_id: str, status: DeliveryStatus | None, *, after: str | None, limit: int
    ) -> list[Delivery]:
        self._need_open()
        found = (
            each
            for each in self._deliveries.beyond(after, newest_first=True)
            if each.webhook_id == webhook_id and status in (None, each.status)
        )
        return share_all(islice(found, max(limit, 0)))

    async def waiting_deliveries(self, *, after: str | None, limit: int) -> list[Delivery]:
        self._need_open()
        rows = self._deliveries.beyond(after, newest_first=False)
        found = (each for each in rows if each.settled_at is None)
        return share_all(islice(found, max(limit, 0)))

    async def count_deliveries(self, webhook_id: str) -> dict[DeliveryStatus, int]:
        self._need_open()
        return dict(
            Counter(each.status for each in self._deliveries if each.webhook_id == webhook_id)
        )

    async def remove_deliveries(self, *, before: float, limit: int) -> int:
        self._need_open()
        settled = sorted(
            (each.settled_at, each.id)
            for each in self._deliveries
            if each.settled_at is not None and each.settled_at < before
        )
        gone = [id for _, id in settled[: max(limit, 0)]]
        self._deliveries.remove(gone)
        for id in gone:
            del self._present.versions[Delivery][id]
        return len(gone)

    async def remove_webhooks(self, *, before: float, limit: int) -> int:
        self._need_open()
        removed = sorted(
            (each.removed_at, each.id)
            for each in self._webhooks
            if each.removed_at is not None and each.removed_at < before
        )
        gone = [id for _, id in removed[: max(limit, 0)]]
        self._webhooks.remove(gone)
        for id in gone:
            del self._present.versions[Webhook][id]
        return len(gone)

    async def alert_rules(self) -> list[AlertRule]:
        self._need_open()
        return share_all(self._alert_rules)

    async def alert_rule(self, id: str) -> AlertRule | None:
        self._need_open()
        return self._alert_rules.rows.get(id)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
