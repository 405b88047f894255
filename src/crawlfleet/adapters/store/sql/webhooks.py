"""The part of a SQL store that is about webhooks, and about rules for alerts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values
from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.webhooks.model import Delivery, DeliveryStatus, Webhook

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


def _newest(limit: int, found: Rows) -> Rows:
    return sorted(found, key=itemgetter(0), reverse=True)[:limit]


class SqlWebhooks(ABC, Generic[T]):
    """Implements `crawlfleet.ports.webhooks.Webhooks`."""

    _statements: Statements[T]

    @abstractmethod
    async def _decode(
        self, mapping: RowMap[S], statement: T, runs: Sequence[Values], choose: Any = None
    ) -> list[S]: ...

    @abstractmethod
    async def _fetch(self, statement: T, values: Values) -> Rows: ...

    @abstractmethod
    async def _write(self, job: Any) -> Any: ...

    @abstractmethod
    async def _in_order(self, mapping: RowMap[S]) -> list[S]: ...

    @abstractmethod
    async def _one(self, mapping: RowMap[S], id: str) -> S | None: ...

    async def webhooks(self) -> list[Webhook]:
        return await self._in_order(rows.WEBHOOK)

    async def webhook(self, id: str) -> Webhook | None:
        return await self._one(rows.WEBHOOK, id)

    async def deliveries_among(self, ids: Sequence[str]) -> list[Delivery]:
        statement = self._statements.by_ids(rows.DELIVERY.table)
        found = await self._decode(rows.DELIVERY, statement, [{"ids": list(ids)}])
        return sorted(found, key=attrgetter("id"))

    async def find_deliveries(
        self, webhook_id: str, status: DeliveryStatus | None, *, after: str | None, limit: int
    ) -> list[Delivery]:
        """One query for each state, since within a state the index is in order; then the best."""
        most = max(limit, 0)
        states = [*DeliveryStatus] if status is None else [status]
        runs: list[Values] = [
            {"webhook_id": webhook_id, "status": state.value, "limit": most} for state in states
        ]
        statement = self._statements.of_webhooks.deliveries
        if after is not None:
            statement = self._statements.of_webhooks.deliveries_before
            runs = [run | {"after": after} for run in runs]
        return await self._decode(rows.DELIVERY, statement, runs, partial(_newest, most))

    async def waiting_deliveries(self, *, after: str | None, limit: int) -> list[Delivery]:
        values: Values = {"limit": max(limit, 0)}
        if after is None:
            return await self._decode(rows.DELIVERY, self._statements.of_webhooks.waiting, [values])
        statement = self._statements.of_webhooks.waiting_after
        return await self._decode(rows.DELIVERY, statement, [values | {"after": after}])

    async def count_deliveries(self, webhook_id: str) -> dict[DeliveryStatus, int]:
        statement = self._statements.of_webhooks.count_deliveries
        found = await self._fetch(statement, {"webhook_id": webhook_id})
        return {DeliveryStatus(row[0]): row[1] for row in found}

    async def remove_deliveries(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_deliveries(before, limit)))

    async def remove_webhooks(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_webhooks(before, limit)))

    async def alert_rules(self) -> list[AlertRule]:
        return await self._in_order(rows.ALERT_RULE)

    async def alert_rule(self, id: str) -> AlertRule | None:
        return await self._one(rows.ALERT_RULE, id)
