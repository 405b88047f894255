"""Tests of webhooks, their deliveries, and alert rules."""

from msgspec.structs import replace

from crawlfleet.features.alerts.table import ALERT_RULES
from crawlfleet.features.webhooks.model import DeliveryStatus
from crawlfleet.features.webhooks.table import (
    DELIVERIES,
    WEBHOOKS,
    deliveries_to,
    removed_webhooks,
    settled_deliveries,
    waiting_deliveries,
)
from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    Harness,
    commit_one,
    is_refused,
    must,
    on_store,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import NOW
from crawlfleet.testing.store_suite.webhook_samples import (
    FULL_DELIVERY,
    FULL_RULE,
    FULL_WEBHOOK,
    make_delivery,
    make_webhook,
)


class WebhookTests(Harness):
    @on_store
    async def test_webhooks_deliveries_and_rules_come_back_as_they_were(self, store: Store) -> None:
        plain = make_webhook(2)
        await must(
            store,
            Change(
                rows=(plain, FULL_WEBHOOK, FULL_DELIVERY, FULL_RULE),
            ),
        )
        assert await store.find(WEBHOOKS.where()) == [FULL_WEBHOOK, plain]
        assert await store.get(WEBHOOKS, plain.id) == plain
        assert await store.get(WEBHOOKS, "hook-none") is None
        assert await store.get_many(DELIVERIES, [FULL_DELIVERY.id, "x"]) == [FULL_DELIVERY]
        assert await store.find(ALERT_RULES.where()) == [FULL_RULE]
        assert await store.get(ALERT_RULES, FULL_RULE.id) == FULL_RULE
        assert await store.get(ALERT_RULES, "rule-none") is None
        changed = replace(FULL_RULE, is_on=True, version=2)
        await must(store, Change(rows=(changed,)))
        assert await store.find(ALERT_RULES.where()) == [changed]

    @on_store
    async def test_a_delivery_is_made_once_and_settled_by_its_version(self, store: Store) -> None:
        epoch = await take_lead(store, "one")
        made = make_delivery()
        await must(store, Change(rows=(made,), epoch=epoch))
        again = await commit_one(store, Change(rows=(made,), epoch=epoch))
        assert is_refused(again, RefusalKind.VERSION, made.id)
        done = replace(made, status=DeliveryStatus.DELIVERED, settled_at=NOW + 1, version=2)
        await must(store, Change(rows=(done,), epoch=epoch))
        assert await store.get_many(DELIVERIES, [made.id]) == [done]
        late = replace(made, attempts=1, version=2)
        refused = await commit_one(store, Change(rows=(late,), epoch=epoch))
        assert is_refused(refused, RefusalKind.VERSION, made.id)
        other = await take_lead(store, "another")
        refused = await commit_one(store, Change(rows=(make_delivery(2),), epoch=epoch))
        assert is_refused(refused, RefusalKind.EPOCH, str(other))

    @on_store
    async def test_deliveries_are_listed_newest_event_first(self, store: Store) -> None:
        waiting = [make_delivery(seq) for seq in (1, 3, 5)]
        dead = [
            make_delivery(seq, status=DeliveryStatus.DEAD, settled_at=NOW + seq) for seq in (2, 4)
        ]
        other = make_delivery(9, "hook-0002")
        await must(store, Change(rows=(*waiting, *dead, other)))
        newest = sorted([*waiting, *dead], key=lambda each: each.seq, reverse=True)

        async def find(status: DeliveryStatus | None, after: str | None, limit: int) -> list[int]:
            found = await store.find(deliveries_to("hook-0001", status, after=after, limit=limit))
            return [each.seq for each in found]

        assert await find(None, None, 9) == [5, 4, 3, 2, 1]
        assert await find(None, None, 2) == [5, 4]
        assert await find(None, newest[1].id, 2) == [3, 2]
        assert await find(None, None, 0) == []
        assert await find(DeliveryStatus.DEAD, None, 9) == [4, 2]
        assert await find(DeliveryStatus.DEAD, newest[1].id, 9) == [2]
        assert await find(DeliveryStatus.DELIVERED, None, 9) == []
        assert await store.count(deliveries_to("hook-0001"), "status") == {
            DeliveryStatus.WAITING: 3,
            DeliveryStatus.DEAD: 2,
        }
        assert await store.count(deliveries_to("hook-none"), "status") == {}

    @on_store
    async def test_what_waits_is_listed_in_order_of_id(self, store: Store) -> None:
        waiting = [make_delivery(seq, f"hook-{hook:04}") for hook in (2, 1) for seq in (1, 2)]
        done = make_delivery(3, status=DeliveryStatus.DELIVERED, settled_at=NOW)
        await must(store, Change(rows=(*waiting, done)))
        ordered = sorted(waiting, key=lambda each: each.id)
        assert await store.find(waiting_deliveries(after=None, limit=9)) == ordered
        assert await store.find(waiting_deliveries(after=None, limit=2)) == ordered[:2]
        assert await store.find(waiting_deliveries(after=ordered[1].id, limit=9)) == ordered[2:]
        assert await store.find(waiting_deliveries(after=None, limit=0)) == []

    @on_store
    async def test_settled_deliveries_and_removed_webhooks_go_oldest_first(
        self, store: Store
    ) -> None:
        waits = make_delivery(9)
        settled = [
            make_delivery(seq, status=DeliveryStatus.DELIVERED, settled_at=NOW + seq)
            for seq in range(5)
        ]
        kept, gone = make_webhook(1), make_webhook(2, removed_at=NOW)
        await must(store, Change(rows=(waits, *settled, kept, gone)))
        assert await store.remove(settled_deliveries(before=NOW + 4, limit=0)) == 0
        assert await store.remove(settled_deliveries(before=NOW + 4, limit=3)) == 3
        assert await store.remove(settled_deliveries(before=NOW + 4, limit=3)) == 1
        assert await store.remove(settled_deliveries(before=NOW + 4, limit=3)) == 0
        left = await store.find(deliveries_to("hook-0001", None, after=None, limit=9))
        assert left == [waits, settled[4]]
        assert await store.remove(removed_webhooks(before=NOW, limit=9)) == 0
        assert await store.remove(removed_webhooks(before=NOW + 1, limit=9)) == 1
        assert await store.find(WEBHOOKS.where()) == [kept]
        # What is gone is new again.
        await must(store, Change(rows=(settled[0], gone)))
