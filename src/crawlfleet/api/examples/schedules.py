"""Real requests and answers about schedules."""

from typing import Any, Final

_ID: Final = "sched-1m7f8kvnx0ph9v69ycjkfks14"
_TASK: Final = "task-1m7g4xv0c0ph9v69ycjkfks15"

SCHEDULE_REQUEST: Final[dict[str, Any]] = {
    "name": "shop-nightly",
    "cron": "30 2 * * *",
    "time_zone": "Europe/Berlin",
    "misfire_grace_s": 3600,
    "task": {
        "task_type": "web_crawl",
        "project_id": "shop",
        "parameters": {"url": "https://shop.example/", "depth": 3, "workers": 4},
    },
}
STARTED: Final[dict[str, Any]] = {
    "id": "fire-1m7f8kvnx0ph9v69ycjkfks14-1m7g4xtr0-1",
    "due_at": "2026-11-16T01:30:00Z",
    "at": "2026-11-16T01:30:00.004210Z",
    "outcome": "started",
    "origin": "rule",
    "task_id": _TASK,
    "run_id": None,
    "reason": "",
    "count": 1,
    "first_due_at": None,
    "edition": 1,
}
SCHEDULE: Final[dict[str, Any]] = {
    "id": _ID,
    "name": "shop-nightly",
    "project_id": "shop",
    "description": "",
    "status": "active",
    "cron": "30 2 * * *",
    "every_s": None,
    "time_zone": "Europe/Berlin",
    "start_at": None,
    "end_at": None,
    "coalesce": True,
    "misfire_grace_s": 3600.0,
    "max_instances": 1,
    "overlap": "skip",
    "jitter_s": 0.0,
    "task": {
        "task_type": "web_crawl",
        "project_id": "shop",
        "parameters": {"url": "https://shop.example/", "depth": 3, "workers": 4},
    },
    "workflow": None,
    "next_at": "2026-11-17T01:30:00Z",
    "running": [],
    "waiting_since": None,
    "last": STARTED,
    "edition": 1,
    "created_at": "2026-11-15T09:29:03.933242Z",
    "updated_at": "2026-11-16T01:30:00.004210Z",
    "version": 2,
}
SCHEDULE_PATCH: Final[dict[str, Any]] = {"cron": "0 4 * * mon-fri", "overlap": "queue"}
RUN: Final[dict[str, Any]] = {
    **STARTED,
    "id": "fire-1m7f8kvnx0ph9v69ycjkfks14-1m7gk2p4h-1r",
    "due_at": "2026-11-16T09:00:12.417000Z",
    "at": "2026-11-16T09:00:12.417000Z",
    "origin": "run",
    "reason": "run by ann",
}
BACKFILL_REQUEST: Final[dict[str, Any]] = {
    "since": "2026-11-10T00:00:00Z",
    "until": "2026-11-15T00:00:00Z",
    "dry_run": True,
}
BACKFILL_REPLY: Final[dict[str, Any]] = {
    "items": [
        {
            **STARTED,
            "id": "fire-1m7f8kvnx0ph9v69ycjkfks14-1m6zt3d80-1b",
            "due_at": "2026-11-10T01:30:00Z",
            "at": "2026-11-16T09:02:40.128000Z",
            "origin": "backfill",
            "task_id": None,
            "reason": "filled back by ann",
        }
    ],
    "already": 4,
}
DUE_PAGE: Final[dict[str, Any]] = {
    "time_zone": "Europe/Berlin",
    "items": [
        {
            "due_at": "2026-11-17T01:30:00Z",
            "local": "Tue 2026-11-17 02:30:00 CET",
            "starts_at": "2026-11-17T01:30:00Z",
        }
    ],
}
HISTORY: Final[dict[str, Any]] = {"items": [STARTED], "next_cursor": None}
EXPLANATION: Final[dict[str, Any]] = {
    "schedule_id": _ID,
    "summary": "shop-nightly is not due; it is paused (paused by ann)",
    "next_at": None,
    "reasons": [
        {
            "code": "paused",
            "message": "it is paused (paused by ann)",
            "remedy": "let it go on: crawlfleet schedules resume shop-nightly",
            "values": {},
        }
    ],
}
