"""Real requests and answers about quotas."""

from typing import Any, Final

QUOTA_PATCH: Final[dict[str, Any]] = {"running": 40, "cpu_cores": 16, "weight": 2}
QUOTAS: Final[dict[str, Any]] = {
    "project_id": "shop",
    "over": "queue",
    "quotas": [
        {"name": "waiting", "use": 1204.0, "limit": None, "left": None},
        {"name": "running", "use": 40.0, "limit": 40.0, "left": 0.0},
        {"name": "cpu_cores", "use": 10.0, "limit": 16.0, "left": 6.0},
        {"name": "memory_mb", "use": 0.0, "limit": None, "left": None},
    ],
    "weight": 2.0,
    "share": 0.4,
    "due": 0.666667,
    "nodes": {},
    "version": 3,
}
QUOTA_PAGE: Final[dict[str, Any]] = {"items": [QUOTAS], "next_cursor": None}
