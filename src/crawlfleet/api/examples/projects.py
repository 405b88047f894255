"""Real requests and answers about projects, clusters, settings and dead letters."""

from typing import Any, Final

PROJECT_REQUEST: Final[dict[str, Any]] = {
    "id": "shop",
    "name": "Price watch",
    "description": "Prices of the shops, every night",
}
PROJECT: Final[dict[str, Any]] = {
    "id": "shop",
    "name": "Price watch",
    "description": "Prices of the shops, every night",
    "status": "active",
    "tasks": {"completed": 1204, "pending": 3},
    "created_at": "2026-11-15T09:29:00.120000Z",
    "updated_at": "2026-11-15T09:29:00.120000Z",
    "version": 1,
}
PROJECTS: Final[dict[str, Any]] = {"items": [PROJECT], "next_cursor": None}
PROJECT_PATCH: Final[dict[str, Any]] = {"description": "Prices of the shops, every hour"}
CLUSTER_REQUEST: Final[dict[str, Any]] = {
    "id": "berlin",
    "description": "Behind the office's line",
    "configuration": {"max_slots": 2},
}
CLUSTER_PATCH: Final[dict[str, Any]] = {
    "configuration": {
        "default_strategy": "bin_pack",
        "session_timeout_s": 30,
        "max_slots": None,
    }
}
ROLLBACK_REQUEST: Final[dict[str, Any]] = {"version": 1}
CLUSTER: Final[dict[str, Any]] = {
    "id": "berlin",
    "project_id": "default",
    "name": "berlin",
    "description": "Behind the office's line",
    "status": "active",
    "configuration": {"default_strategy": "bin_pack", "session_timeout_s": 30.0},
    "configuration_version": 2,
    "created_at": "2026-11-15T09:29:00.120000Z",
    "updated_at": "2026-11-15T09:40:10.450000Z",
    "version": 2,
}
VERSIONS: Final[dict[str, Any]] = {
    "items": [
        {
            "version": 2,
            "settings": {"default_strategy": "bin_pack", "session_timeout_s": 30.0},
            "created_at": "2026-11-15T09:40:10.450000Z",
            "cause": "changed by admin",
        },
        {
            "version": 1,
            "settings": {"max_slots": 2},
            "created_at": "2026-11-15T09:29:00.120000Z",
            "cause": "created by admin",
        },
    ],
    "next_cursor": None,
}
CLUSTER_HEALTH: Final[dict[str, Any]] = {
    "cluster_id": "berlin",
    "status": "active",
    "health": "degraded",
    "troubles": [
        {
            "severity": "warning",
            "message": "1 node fell silent",
            "remedy": "look at the machine and its network, or unregister it",
            "kind": "nodes_silent",
            "values": {"n": 1},
        }
    ],
    "nodes": {"online": 2, "unresponsive": 1},
    "node_health": {"unknown": 2},
    "capacity": {"cpu_cores": 16.0, "memory_mb": 32768.0, "slots": 8.0},
    "used": {"cpu_cores": 3.0, "slots": 3.0},
    "free": {"cpu_cores": 13.0, "memory_mb": 32768.0, "slots": 5.0},
    "tasks": {"pending": 4, "processing": 3},
    "ready": 0,
    "oldest_ready_s": None,
    "configuration_version": 2,
    "outdated_nodes": 0,
}
SETTINGS: Final[dict[str, Any]] = {
    "items": [
        {
            "name": "server.port",
            "value": 9000,
            "origin": "crawlfleet.toml:3",
            "default": 8000,
            "description": "The port to listen on; 0 takes a free one.",
        }
    ],
    "next_cursor": None,
}
DEAD_LETTERS: Final[dict[str, Any]] = {
    "items": [
        {
            "id": "task-1m7f8kvnx0ph9v69ycjkfks14",
            "project_id": "shop",
            "cluster_id": "default",
            "task_type": "http_fetch",
            "status": "failed",
            "reason": "failed 4 times (max_retries 3)",
            "error_class": "network",
            "message": "cannot connect to shop.example",
            "retry_count": 3,
            "loss_count": 0,
            "assigned_node": "node-1m7f8kvp71s4wsmynr9ptfxab",
            "created_at": "2026-11-15T09:29:03.933242Z",
            "completed_at": "2026-11-15T09:31:17.201455Z",
        }
    ],
    "next_cursor": None,
}
DEAD_LETTER_REQUEST: Final[dict[str, Any]] = {
    "filter": {"project_id": "shop", "error_class": "network"}
}
