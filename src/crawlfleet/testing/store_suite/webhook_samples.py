"""Rows about webhooks and alerts to commit."""

from typing import Any, Final

import msgspec

from crawlfleet.features.alerts.model import (
    AlertRule,
    AlertState,
    AlertStatus,
    Severity,
    Silence,
    Source,
)
from crawlfleet.features.webhooks.model import (
    Delivery,
    DeliveryStatus,
    Format,
    Webhook,
    WebhookStatus,
    delivery_id,
)
from crawlfleet.testing.store_suite.samples import AWKWARD, NOW


def make_webhook(number: int = 1, **fields: Any) -> Webhook:
    usual: dict[str, Any] = {
        "id": f"hook-{number:04}",
        "name": f"webhook-{number}",
        "created_at": NOW,
        "updated_at": NOW,
        "url": "https://hooks.example/in",
        "secret": "0" * 64,
    }
    return Webhook(**(usual | fields))


def make_delivery(seq: int = 1, webhook_id: str = "hook-0001", **fields: Any) -> Delivery:
    usual: dict[str, Any] = {
        "id": delivery_id(webhook_id, seq),
        "webhook_id": webhook_id,
        "subject": "task-0001",
        "kind": "task.completed",
        "seq": seq,
        "created_at": NOW,
        "due_at": NOW,
    }
    return Delivery(**(usual | fields))


FULL_WEBHOOK: Final = make_webhook(
    project_id="shop",
    status=WebhookStatus.PAUSED,
    format=Format.WORKFLOW,
    kinds=("task.failed", "node."),
    node_id="node-0001",
    task_type="web_crawl",
    description=AWKWARD,
    cause=AWKWARD,
    is_full=True,
    old_secret="1" * 64,
    old_until=NOW + 0.5,
    removed_at=NOW + 1,
)
FULL_DELIVERY: Final = make_delivery(
    2**40,
    subject=AWKWARD,
    status=DeliveryStatus.DEAD,
    due_at=NOW + 0.25,
    body=msgspec.Raw(('{"u":"' + "爬虫 \\u0000" + '","n":1.10, "z":[]}').encode()),
    path="/workflowInstances/x:update",
    url="https://flow.example/x?y=1",
    attempts=30,
    last_at=NOW + 1,
    last_status=599,
    last_error=AWKWARD,
    settled_at=NOW + 1.5,
)
FULL_RULE: Final = AlertRule(
    id="rule-0001",
    name="queue-age",
    created_at=NOW,
    updated_at=NOW + 1,
    project_id="shop",
    is_on=False,
    source=Source.QUEUE_AGE,
    above=0.5,
    clear_at=0.25,
    for_s=60.5,
    clear_s=30.0,
    window_s=120.0,
    event="task.failed",
    least=20,
    severity=Severity.CRITICAL,
    group_s=1.5,
    repeat_s=60.0,
    description=AWKWARD,
    cause=AWKWARD,
    silences=(Silence(id="sil-1", until=NOW + 9, by="ann", at=NOW, subject="n", reason=AWKWARD),),
    state=AlertState(
        status=AlertStatus.FIRING,
        since=NOW,
        value=1.5,
        subjects=("node-1",),
        count=3,
        told_at=NOW + 1,
        told=("node-1",),
    ),
    removed_at=NOW + 2,
    version=1,
)
