"""Real requests and answers about crawls and their output."""

from typing import Any, Final

_TASK_ID: Final = "task-06f6vn2kd3yyqj4p3m4p7d2w10"
_FIGURES: Final[dict[str, Any]] = {
    "at": 1794734951.2,
    "is_paused": False,
    "is_final": False,
    "pages": 412,
    "rate_per_s": 38.4,
    "items": 3011,
    "bytes": 8120044,
    "requests": 431,
    "retries": 6,
    "known": 1220,
    "waiting": 771,
    "in_flight": 16,
    "done": 433,
    "failed": 9,
    "rejected": 2210,
    "outcomes": {"ok": 412, "redirect": 12, "client_error": 9},
    "depths": [1, 40, 1179],
    "empty_fields": {"price": "span.prise"},
}
CRAWL: Final[dict[str, Any]] = {
    "task_id": _TASK_ID,
    "state": "processing",
    "project": "default",
    "name": "shop.example",
    "url": "https://shop.example/",
    "created_at": "2026-11-15T09:29:00.120000Z",
    "node_id": "node-06f6vn2kd3yyqj4p3m4p7d2w10",
    "started_at": "2026-11-15T09:29:00.310000Z",
    "figures": {
        **_FIGURES,
        "hosts": [
            {
                "host": "https://shop.example",
                "pages": 433,
                "waiting": 787,
                "errors": 9,
                "latency_ms": 41.7,
                "delay_s": 20.0,
                "rests_until": 1794734963.9,
                "why": "429, asked to wait",
            }
        ],
        "rates": [{"at": 1794734950.9, "pages": 384}],
    },
    "output": {
        "items": 2990,
        "bytes": 91230,
        "columns": ["page_url", "title", "price", "url"],
        "formats": ["jsonl", "csv"],
    },
}
CRAWLS: Final[dict[str, Any]] = {
    "items": [
        {
            **{name: value for name, value in CRAWL.items() if name != "output"},
            "figures": {**_FIGURES, "hosts": [], "rates": []},
        }
    ],
    "next_cursor": None,
}
CRAWL_ITEMS: Final[dict[str, Any]] = {
    "items": [
        {
            "number": 1,
            "kind": "products",
            "fields": {
                "page_url": "https://shop.example/products",
                "title": "Kettle",
                "price": 24.9,
                "url": "https://shop.example/products/1",
            },
        }
    ],
    "next_cursor": "1",
    "columns": ["page_url", "title", "price", "url"],
}
URL_EXPLANATION: Final[dict[str, Any]] = {
    "url": "https://shop.example/products/1",
    "record": {
        "id": 4521900711034511,
        "url": "https://shop.example/products/1",
        "host": "https://shop.example",
        "status": "done",
        "depth": 2,
        "attempts": 1,
        "found_on": "https://shop.example/products",
        "found_at": 1794734941.4,
        "due": None,
        "outcome": "ok",
        "http_status": 200,
        "at": 1794734942.0,
        "note": "",
    },
}
SERVICE_REQUEST: Final[dict[str, Any]] = {
    "session_id": "session-06f6vn2kd3yyqj4p3m4p7d2w10",
    "execution_id": "exec-06f6vn2kd3yyqj4p3m4p7d2w10",
    "token": 1,
    "payload": {
        "wants": [
            {
                "host": "https://shop.example",
                "keys": [
                    {"key": "host:https://shop.example", "delay_s": 1.0, "concurrency": 1},
                    {"key": "domain:shop.example", "delay_s": 0.25, "concurrency": 4},
                    {"key": "address:203.0.113.7", "delay_s": 0.125, "concurrency": 8},
                ],
            }
        ],
    },
    "data": "",
}
SERVICE_RESPONSE: Final[dict[str, Any]] = {
    "payload": {
        "windows": [
            {
                "key": "host:https://shop.example",
                "start_in_s": 0.0,
                "end_in_s": 10.0,
                "delay_s": 1.0,
                "permits": 1,
            }
        ]
    },
    "data": "",
    "refusal": "",
    "may_retry": False,
}
HOSTS: Final[dict[str, Any]] = {
    "items": [
        {
            "key": "host:https://shop.example",
            "delay_s": 1.0,
            "concurrency": 1,
            "used_by": ["exec-06f6vn2kd3yyqj4p3m4p7d2w10"],
            "waiting": ["exec-06f6vn2kd3yyqj4p3m4p7d2w1g"],
            "next_in_s": 0.4,
            "paused_for_s": 0.0,
            "pause": "",
        }
    ],
    "total": 1,
}
CRAWL_WORK: Final[dict[str, Any]] = {
    "shards": [
        {
            "shard": 0,
            "task_id": "task-06f6vn2kd3yyqj4p3m4p7d2w1g",
            "state": "processing",
            "node_id": "node-06f6vn2kd3yyqj4p3m4p7d2w10",
            "execution_id": "exec-06f6vn2kd3yyqj4p3m4p7d2w10",
            "pages": 212,
            "items": 1801,
            "rate_per_s": 19.2,
            "hosts": 3,
        }
    ],
    "partitions": [
        {
            "number": 0,
            "waiting": 771,
            "in_flight": 24,
            "done": 412,
            "hosts": 5,
            "holders": [
                {"execution_id": "exec-06f6vn2kd3yyqj4p3m4p7d2w10", "hosts": 3, "shard": 0}
            ],
            "holders_total": 1,
        }
    ],
    "partitions_total": 1,
    "hosts": [
        {
            "host": "https://shop.example",
            "partition": 0,
            "waiting": 402,
            "in_flight": 8,
            "done": 211,
            "execution_id": "exec-06f6vn2kd3yyqj4p3m4p7d2w10",
            "shard": 0,
        }
    ],
    "keys": [
        {
            "key": "host:https://shop.example",
            "delay_s": 1.0,
            "concurrency": 1,
            "paused_for_s": 42.0,
            "pause": "429, asked to wait",
            "visitors": [{"task_id": "task-06f6vn2kd3yyqj4p3m4p7d2w10", "task_type": "web_crawl"}],
            "visitors_total": 2,
        }
    ],
    "keys_total": 1,
}
