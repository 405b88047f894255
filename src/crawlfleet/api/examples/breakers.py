"""Real answers about breakers."""

from typing import Any, Final

BREAKERS: Final[dict[str, Any]] = {
    "items": [
        {
            "project_id": "shop",
            "target": "shop.example",
            "state": "open",
            "failures": 12,
            "since": "2026-11-16T01:30:00.004210Z",
            "opened_at": "2026-11-16T01:30:41.118500Z",
            "retry_at": "2026-11-16T01:31:11.118500Z",
            "probe": None,
            "error": "https://shop.example/: connection refused",
            "waiting": 340,
        }
    ],
    "total": 1,
}
CLOSING: Final[dict[str, Any]] = {"project_id": "shop"}
CLOSED: Final[dict[str, Any]] = {
    "project_id": "shop",
    "target": "shop.example",
    "state": "closed",
    "failures": 0,
    "since": None,
    "opened_at": None,
    "retry_at": None,
    "probe": None,
    "error": "",
    "waiting": 0,
}
