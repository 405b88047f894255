"""The part of a store that keeps webhooks, what is on its way to them, and rules for alerts.

All of them are versioned rows and are written by `Store.commit`.
"""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook


class Webhooks(Protocol):
    """Every method may raise `StoreUnavailable`. Lists are in order of id."""

    async def webhooks(self) -> list[Webhook]:
        """All, also those that were removed, for as long as they are kept."""
        ...

    async def webhook(self, id: str) -> Webhook | None: ...

    async def deliveries_among(self, ids: Sequence[str]) -> list[Delivery]:
        """Those that there are among `ids`."""
        ...

    async def find_deliveries(
        self, webhook_id: str, status: DeliveryStatus | None, *, after: str | None, limit: int
    ) -> list[Delivery]:
        """Up to `limit` deliveries of a webhook with an id below `after`, the highest id first.

        That is the order of their events, the newest first.
        """
        ...

    async def waiting_deliveries(self, *, after: str | None, limit: int) -> list[Delivery]:
        """Up to `limit` deliveries of all webhooks that wait, with an id above `after`."""
        ...

    async def count_deliveries(self, webhook_id: str) -> dict[DeliveryStatus, int]:
        """How many deliveries of a webhook are in each state; states without one are left out."""
        ...

    async def remove_deliveries(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` deliveries that were settled before then, the oldest first.

        One that waits stays. Returns how many went.
        """
        ...

    async def remove_webhooks(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` webhooks that were removed before then, the oldest first.

        Their deliveries go when their own time has come. Returns how many went.
        """
        ...

    async def alert_rules(self) -> list[AlertRule]:
        """All, also those that were removed."""
        ...

    async def alert_rule(self, id: str) -> AlertRule | None: ...
