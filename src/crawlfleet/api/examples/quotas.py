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
        {"name": "pages_per_day", "use": 61250.0, "limit": 200000.0, "left": 138750.0},
        {"name": "storage_mb", "use": 1840.25, "limit": None, "left": None},
    ],
    "weight": 2.0,
    "share": 0.4,
    "due": 0.666667,
    "nodes": {},
    "version": 3,
}
_DAY: Final[dict[str, Any]] = {
    "submitted": 1210,
    "completed": 1180,
    "failed": 12,
    "cancelled": 4,
    "attempts": 1231,
    "cpu_s": 5120.5,
    "run_s": 18230.75,
    "pages": 61250,
    "bytes": 1204500000,
}
USAGE: Final[dict[str, Any]] = {
    "step": "day",
    "since": "2026-11-15T00:00:00Z",
    "until": "2026-11-16T09:00:00Z",
    "items": [
        {
            **_DAY,
            "project_id": "shop",
            "at": "2026-11-16T00:00:00Z",
            "peak_waiting": 1204,
            "peak_running": 40,
            "storage_bytes": 1840250000,
        }
    ],
    "total": _DAY,
}
QUOTA_PAGE: Final[dict[str, Any]] = {"items": [QUOTAS], "next_cursor": None}
