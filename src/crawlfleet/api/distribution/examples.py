"""Examples for the documentation of /api/distribution."""

from typing import Any, Final

_TASK_ID: Final = "task-1m7f8kvp4q0pm4xp9f3egbf64"
_NODE_ID: Final = "node-1m7f8kvp71s4wsmynr9ptfxab"

DEVICE_REGISTRATION: Final[dict[str, Any]] = {
    "device_id": "worker-001",
    "device_name": "Worker Node 1",
    "concurrent_tasks": 3,
    "task_types": ["http_fetch"],
}
REGISTERED_DEVICE: Final[dict[str, Any]] = {
    "device_id": "worker-001",
    "node_id": _NODE_ID,
    "status": "online",
    "heartbeat_interval": 30.0,
    "device_timeout": 300.0,
    "api_key": "9c0f6d1c2e5b4a7f8d3e2b1a0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7",
}
DEVICES: Final[dict[str, Any]] = {
    "devices": [
        {
            "device_id": "worker-001",
            "node_id": _NODE_ID,
            "device_name": "Worker Node 1",
            "device_type": "standard",
            "status": "online",
            "health": "healthy",
            "health_reason": "",
            "host": "10.0.0.7",
            "port": 0,
            "concurrent_tasks": 3,
            "current_tasks": 1,
            "cpu_usage": 0.65,
            "memory_usage": 0.75,
            "disk_usage": 0.31,
            "last_heartbeat": "2026-11-15T09:29:03.952047Z",
            "registered_at": "2026-11-15T09:29:03.943095Z",
        }
    ],
    "total": 1,
}
DEVICE_HEARTBEAT: Final[dict[str, Any]] = {
    "cpu_usage": 0.65,
    "memory_usage": 0.75,
    "current_tasks": [_TASK_ID],
}
DEVICE_REPLY: Final[dict[str, Any]] = {
    "device_id": "worker-001",
    "status": "online",
    "timestamp": "2026-11-15T09:29:03.952047Z",
    "registered": True,
    "stop_tasks": [],
}
DEVICE_STATS: Final[dict[str, Any]] = {
    "device_id": "worker-001",
    "status": "online",
    "health": "healthy",
    "current_tasks": 1,
    "ended": 41,
    "errors": 1,
    "error_rate": 0.024390243902439025,
    "mean_duration": 4.8,
    "cpu_usage": 0.65,
    "memory_usage": 0.75,
}
NEW_TASK: Final[dict[str, Any]] = {
    "task_type": "http_fetch",
    "parameters": {"url": "https://example.com/"},
    "priority": 8,
}
TASK: Final[dict[str, Any]] = {
    "task_id": _TASK_ID,
    "task_type": "http_fetch",
    "status": "pending",
    "priority": 8,
    "device_id": None,
    "token": 0,
    "retry_count": 0,
    "max_retry_count": 3,
    "task_timeout": 3600.0,
    "created_at": "2026-11-15T09:29:03.943095Z",
    "started_at": None,
    "completed_at": None,
    "result": None,
    "error": None,
}
COMPLETED: Final[dict[str, Any]] = {"status": "completed", "token": 1, "result": {"status": 200}}
PULLED: Final[dict[str, Any]] = {
    "tasks": [
        {
            "task_id": _TASK_ID,
            "task_type": "http_fetch",
            "parameters": {"url": "https://example.com/"},
            "token": 1,
            "attempt": 1,
            "task_timeout": 3600.0,
        }
    ],
    "stop_tasks": [],
    "registered": True,
}
TASK_STATS: Final[dict[str, Any]] = {
    "total": 42,
    "by_status": {"completed": 40, "failed": 1, "processing": 1},
    "completed_last_minute": 12,
    "completed_last_hour": 40,
    "failed_last_hour": 1,
    "failures": {"network": 1},
}
OVERVIEW: Final[dict[str, Any]] = {
    "version": "0.1.0",
    "leader": "http://master-1:8000",
    "devices": {"online": 1},
    "health": {"healthy": 1},
    "tasks": {"completed": 40, "failed": 1, "processing": 1},
    "ready_tasks": 0,
    "running_tasks": 1,
    "oldest_ready": None,
    "completed_per_second": 0.2,
}
