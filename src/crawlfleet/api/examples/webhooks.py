"""Real requests and answers about webhooks."""

from typing import Any, Final

_ID: Final = "hook-1m7f8kvp71s4wsmynr9ptfxab"
_AT: Final = "2026-11-15T09:40:10.450000Z"
_DELIVERY_ID: Final = "dlv-1m7f8kvp71s4wsmynr9ptfxab-000000000004711"

WEBHOOK_REQUEST: Final[dict[str, Any]] = {
    "name": "shop-failures",
    "url": "https://hooks.example/crawlfleet",
    "project_id": "shop",
    "kinds": ["task.failed", "task.timeout"],
    "task_type": "web_crawl",
    "description": "to the channel of the shop's team",
}
WEBHOOK_PATCH: Final[dict[str, Any]] = {"kinds": ["task."], "task_type": None}
ROTATION: Final[dict[str, Any]] = {"grace_s": 3600}
WEBHOOK: Final[dict[str, Any]] = {
    "id": _ID,
    "name": "shop-failures",
    "project_id": "shop",
    "url": "https://hooks.example/crawlfleet",
    "format": "events",
    "status": "active",
    "is_full": False,
    "cause": "created by ann",
    "kinds": ["task.failed", "task.timeout"],
    "node_id": None,
    "task_type": "web_crawl",
    "description": "to the channel of the shop's team",
    "created_at": _AT,
    "updated_at": _AT,
    "version": 1,
}
DETAILS: Final[dict[str, Any]] = {
    **WEBHOOK,
    "waiting": 1,
    "delivered": 120,
    "dead": 0,
    "superseded": 0,
}
WEBHOOKS: Final[dict[str, Any]] = {"items": [WEBHOOK], "next_cursor": None}
NEW_WEBHOOK: Final[dict[str, Any]] = {
    "webhook": WEBHOOK,
    "secret": "6f1d8a4be0c2975f3ab8de6c1907f254c3e8a1b6d9f07452e81c3ba6d5f09e47",
}
DELIVERY: Final[dict[str, Any]] = {
    "id": _DELIVERY_ID,
    "webhook_id": _ID,
    "kind": "task.failed",
    "subject": "task-1m7f8kvq2c9t0vj5p6x7r8n4e",
    "seq": 4711,
    "status": "waiting",
    "attempts": 2,
    "created_at": _AT,
    "due_at": "2026-11-15T09:40:16.901000Z",
    "last_at": "2026-11-15T09:40:12.733000Z",
    "last_status": 502,
    "last_error": "answered 502",
    "settled_at": None,
}
DELIVERY_DETAILS: Final[dict[str, Any]] = {
    **DELIVERY,
    "path": "",
    "url": "",
    "body": {
        "id": _DELIVERY_ID,
        "webhook": "shop-failures",
        "event": {
            "seq": 4711,
            "kind": "task.failed",
            "subject": "task-1m7f8kvq2c9t0vj5p6x7r8n4e",
            "at": _AT,
            "cause": "failed 4 times (max_retries 3)",
            "from_state": "processing",
            "to_state": "failed",
            "details": {"node_id": "node-1m7f8kvnq3d8c5r2t9w6y4z1b"},
            "project_id": "shop",
        },
    },
}
DELIVERIES: Final[dict[str, Any]] = {"items": [DELIVERY], "next_cursor": None}
RESEND: Final[dict[str, Any]] = {"ids": [_DELIVERY_ID]}
RESENT: Final[dict[str, Any]] = {"resent": 1, "unchanged": 0, "unknown": [], "more": False}
TEST: Final[dict[str, Any]] = {"delivered": True, "status": 204, "error": "", "elapsed_s": 0.041}
