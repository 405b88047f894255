"""Real requests and answers, for the reference: each is checked against the type of its route."""

from typing import Any, Final

_TASK_ID: Final = "task-1m7f8kvnx0ph9v69ycjkfks14"
_WAITING_ID: Final = "task-1m7f8kvp4q0pm4xp9f3egbf64"
_NODE_ID: Final = "node-1m7f8kvp71s4wsmynr9ptfxab"
_EXECUTION_ID: Final = "exec-1m7f8kvpa9ttycyk90d7z701w"
_SESSION_ID: Final = "sess-1m7f8kvp7f10psgexzke8w6d7"
_PARENT_ID: Final = "task-1m7hg3wq2q8b2jmw0xbd8ex9t"
_SHARD_ID: Final = "task-1m7hg3wq2rd0fsv6hsx2pm8k4"

TASK_REQUEST: Final[dict[str, Any]] = {
    "task_type": "http_fetch",
    "parameters": {"url": "https://example.com/"},
    "priority": 7,
    "dedup_key": "example.com/",
}
TASK_RECEIPT: Final[dict[str, Any]] = {
    "id": _TASK_ID,
    "status": "pending",
    "created_at": "2026-11-15T09:29:03.933242Z",
    "priority": 7,
}
BATCH_REQUEST: Final[dict[str, Any]] = {
    "tasks": [
        {"task_type": "sleep", "parameters": {"seconds": 1}, "idempotency_key": "nightly-1"},
        {"task_type": "sleep", "parameters": {"seconds": -1}},
    ]
}
BATCH_REPLY: Final[dict[str, Any]] = {
    "items": [
        {"id": _WAITING_ID, "status": "pending"},
        {
            "error": {
                "type": "urn:crawlfleet:problem:invalid-request",
                "title": "Unprocessable Entity",
                "status": 422,
                "detail": "parameters.seconds: is out of range",
                "errors": [
                    {
                        "field": "parameters.seconds",
                        "message": "is out of range",
                        "remedy": "send a number >= 0.0",
                        "value": None,
                    }
                ],
            }
        },
    ],
    "deduplicated": 0,
}
TASK: Final[dict[str, Any]] = {
    "id": _TASK_ID,
    "project_id": "default",
    "cluster_id": "default",
    "task_type": "http_fetch",
    "parameters": {"url": "https://example.com/"},
    "priority": 7,
    "status": "completed",
    "created_at": "2026-11-15T09:29:03.933242Z",
    "updated_at": "2026-11-15T09:29:03.956098Z",
    "retry_count": 0,
    "max_retries": 3,
    "dedup_key": "example.com/",
    "assigned_node": _NODE_ID,
    "assigned_at": "2026-11-15T09:29:03.947044Z",
    "started_at": "2026-11-15T09:29:03.954958Z",
    "completed_at": "2026-11-15T09:29:03.956098Z",
    "result": {
        "success": True,
        "data": {"status": 200},
        "metrics": {"data_size": 1256.0, "processing_time": 0.00114},
        "timestamp": "2026-11-15T09:29:03.956098Z",
    },
}
EXECUTIONS: Final[dict[str, Any]] = {
    "items": [
        {
            "id": _EXECUTION_ID,
            "task_id": _TASK_ID,
            "node_id": _NODE_ID,
            "token": 1,
            "status": "completed",
            "start_time": "2026-11-15T09:29:03.947044Z",
            "running_at": "2026-11-15T09:29:03.954958Z",
            "end_time": "2026-11-15T09:29:03.956098Z",
            "allocation": {"cpu_cores": 1.2, "memory_mb": 1126.4, "slots": 1.0},
            "metrics": {"data_size": 1256.0, "processing_time": 0.00114},
        }
    ],
    "next_cursor": None,
}
EXECUTION: Final[dict[str, Any]] = {
    "id": _EXECUTION_ID,
    "task_id": _TASK_ID,
    "node_id": _NODE_ID,
    "token": 1,
    "status": "running",
    "start_time": "2026-11-15T09:29:03.947044Z",
    "running_at": "2026-11-15T09:29:03.954958Z",
    "allocation": {"cpu_cores": 1.2, "memory_mb": 1126.4, "slots": 1.0},
    "progress": {"done": 3.0, "total": 10.0, "at": "2026-11-15T09:29:04.120000Z"},
}
LOGS: Final[dict[str, Any]] = {
    "execution_id": _EXECUTION_ID,
    "items": [
        {
            "seq": 1,
            "at": "2026-11-15T09:29:04.101000Z",
            "level": "warning",
            "message": "slow answer",
            "fields": {"url": "https://example.com/", "seconds": 4.2},
        }
    ],
    "next_cursor": None,
}
EVENTS: Final[dict[str, Any]] = {
    "items": [
        {
            "seq": 4,
            "kind": "task.assigned",
            "subject": _TASK_ID,
            "at": "2026-11-15T09:29:03.947044Z",
            "cause": "placed by least_loaded",
            "from_state": "pending",
            "to_state": "assigned",
            "details": {"node_id": _NODE_ID, "execution_id": _EXECUTION_ID, "token": 1},
        }
    ],
    "next_cursor": "4",
}
_NO_ROOM: Final = (
    "None of 1 nodes can take it now: 1 without the resources free. "
    "It waits until something is finished."
)
EXPLANATION: Final[dict[str, Any]] = {
    "task_id": _WAITING_ID,
    "status": "pending",
    "summary": _NO_ROOM,
    "placement": {
        "summary": _NO_ROOM,
        "feasible": False,
        "nodes": 1,
        "feasible_nodes": 0,
        "rejected": {"resources": 1},
        "causes": [{"code": "resources", "nodes": 1, "lasting": False}],
        "details": [
            {
                "node_id": _NODE_ID,
                "name": "crawler-01",
                "reasons": [
                    {
                        "filter": "resources",
                        "message": "slots: needs 1, 0 of 1 is free",
                        "code": "taken",
                        "values": {"name": "slots", "needs": 1.0, "free": 0.0, "has": 1.0},
                    }
                ],
            }
        ],
    },
    "ready_tasks": 1,
}
PRIORITY_REQUEST: Final[dict[str, Any]] = {"priority": 9}
BULK_REQUEST: Final[dict[str, Any]] = {
    "filter": {"status": ["pending", "paused"], "project_id": "shop"}
}
BULK_REPLY: Final[dict[str, Any]] = {
    "changed": 1204,
    "unchanged": 0,
    "refused_count": 1,
    "refused": [{"id": _WAITING_ID, "detail": f"{_WAITING_ID} is changing too quickly; try again"}],
    "next_cursor": None,
}
CLONE_REQUEST: Final[dict[str, Any]] = {
    "parameters": {"url": "https://example.com/other"},
    "priority": 8,
}

NODE: Final[dict[str, Any]] = {
    "id": _NODE_ID,
    "name": "crawler-01",
    "description": "",
    "cluster_id": "default",
    "ip_address": "10.0.0.7",
    "port": 0,
    "node_type": "standard",
    "region": "eu-west",
    "location": {"latitude": 53.3, "longitude": -6.3},
    "labels": {},
    "capabilities": {"content_types": ["html", "json"]},
    "task_types": ["http_fetch", "sleep"],
    "resources": {"cpu_cores": 8.0, "memory_mb": 16384.0, "slots": 1.0},
    "status": "online",
    "health": "healthy",
    "health_reason": "",
    "health_at": "2026-11-15T09:29:03.952047Z",
    "conditions": [],
    "usage": {
        "cpu_usage": 0.65,
        "memory_usage": 0.75,
        "gpu_usage": None,
        "network_io": 0.0,
        "disk_io": 0.0,
        "disk_usage": 0.31,
        "disk_free_mb": 51200.0,
    },
    "load": 0.8,
    "active_tasks": [_WAITING_ID],
    "last_heartbeat": "2026-11-15T09:29:03.952047Z",
    "created_at": "2026-11-15T09:29:03.943095Z",
    "updated_at": "2026-11-15T09:29:03.943095Z",
    "configuration_version": 0,
    "version": 2,
    "probe": False,
    "drain_until": None,
}
NODE_CHANGE: Final[dict[str, Any]] = {
    "labels": {"rack": "7", "spare": None},
    "description": "under the window",
}
NODE_HISTORY: Final[dict[str, Any]] = {
    "node_id": _NODE_ID,
    "resolution": "minute",
    "items": [
        {
            "at": "2026-11-15T09:29:00Z",
            "count": 20,
            "cpu_usage": 0.65,
            "memory_usage": 0.75,
            "gpu_usage": None,
            "network_io": 120000.0,
            "disk_io": 4096.0,
            "load": 0.75,
            "active_tasks": 3.5,
            "ended": 41,
            "errors": 1,
            "latency_s": 4.8,
            "disk_usage": 0.31,
            "wait_s": 0.04,
        }
    ],
}
NOTE_BATCH: Final[dict[str, Any]] = {
    "session_id": _SESSION_ID,
    "notes": [
        {
            "execution_id": _EXECUTION_ID,
            "lines": [
                {
                    "seq": 1,
                    "at": 1794734944.101,
                    "message": "slow answer",
                    "level": "warning",
                    "fields": {"url": "https://example.com/", "seconds": 4.2},
                }
            ],
            "progress": {"done": 3, "total": 10, "at": 1794734944.12},
        }
    ],
}
NOTE_REPLY: Final[dict[str, Any]] = {"stale": []}
DEPARTURE: Final[dict[str, Any]] = {"session_id": _SESSION_ID}
REGISTRATION: Final[dict[str, Any]] = {
    "name": "crawler-01",
    "ip_address": "10.0.0.7",
    "region": "eu-west",
    "capabilities": {"content_types": ["html", "json"]},
    "resources": {"cpu": 8, "memory_mb": 16384, "slots": 1},
    "task_types": ["http_fetch", "sleep"],
}
REGISTERED: Final[dict[str, Any]] = {
    "node_id": _NODE_ID,
    "registration_time": 1794734943.943095,
    "initial_status": "online",
    "session_id": _SESSION_ID,
    "session_timeout_s": 12.0,
    "heartbeat_interval_s": 3.0,
    "node_token": "1db23a9b4758110c86e781d53d7b61e06e92537a97e186cccc1b0e2f9d98eca5",
}
HEARTBEAT: Final[dict[str, Any]] = {
    "session_id": _SESSION_ID,
    "resources": {"cpu_usage": 0.65, "memory_usage": 0.75},
    "load": 0.8,
    "active_tasks": [_TASK_ID, "task-123"],
}
HEARTBEAT_REPLY: Final[dict[str, Any]] = {
    "node_id": _NODE_ID,
    "timestamp": 1794734943.952047,
    "status": "online",
    "lost_tasks": ["task-123"],
}
LEASE_REQUEST: Final[dict[str, Any]] = {
    "session_id": _SESSION_ID,
    "held": [],
    "wait_s": 20,
    "backlog": 0,
}
LEASE_REPLY: Final[dict[str, Any]] = {
    "assignments": [
        {
            "execution_id": _EXECUTION_ID,
            "task_id": _TASK_ID,
            "token": 1,
            "task_type": "http_fetch",
            "parameters": {"url": "https://example.com/"},
            "allocation": {"cpu_cores": 1.2, "memory_mb": 1126.4, "slots": 1.0},
        }
    ]
}
REPORT_BATCH: Final[dict[str, Any]] = {
    "session_id": _SESSION_ID,
    "reports": [
        {
            "execution_id": _EXECUTION_ID,
            "task_id": _TASK_ID,
            "token": 1,
            "kind": "succeeded",
            "at": 1794734943.95,
            "data": {"status": 200},
            "metrics": {"data_size": 1256},
        }
    ],
}
REPORT_REPLY: Final[dict[str, Any]] = {"outcomes": ["recorded"]}

ALIVE: Final[dict[str, Any]] = {"status": "alive"}
READY: Final[dict[str, Any]] = {
    "status": "ready",
    "leader": True,
    "epoch": 2,
    "led_by": "http://127.0.0.1:8000",
}
_MINUTE: Final[dict[str, Any]] = {
    "seconds": 60.0,
    "submitted": 2000,
    "assigned": 1960,
    "completed": 1958,
    "failed": 2,
    "timeout": 0,
    "cancelled": 0,
    "completed_per_s": 32.633,
}
_LONGER: Final[dict[str, Any]] = {
    "seconds": 125.5,
    "submitted": 4000,
    "assigned": 3928,
    "completed": 3921,
    "failed": 2,
    "timeout": 0,
    "cancelled": 0,
    "completed_per_s": 31.243,
}
STATISTICS: Final[dict[str, Any]] = {
    "at": "2026-11-15T09:31:05.742318Z",
    "since": "2026-11-15T09:29:00.242318Z",
    "tasks": {"assigned": 4, "completed": 3921, "failed": 2, "pending": 73},
    "ready": 72,
    "delayed": 1,
    "running": 4,
    "oldest_ready_s": 1.873,
    "throughput": {"minute": _MINUTE, "five_minutes": _LONGER, "hour": _LONGER},
    "failures": {"network": 3},
    "nodes": {"online": 1},
    "health": {"unknown": 1},
}
STATUS: Final[dict[str, Any]] = {
    "version": "0.1.0",
    "epoch": 2,
    "totals": {
        "tasks": {"assigned": 1, "completed": 1},
        "nodes": {"online": 1},
        "ready": 0,
        "delayed": 0,
        "running": 1,
    },
    "leader": True,
    "led_by": "http://127.0.0.1:8000",
}
_SHOWN_ONCE: Final = "8c1f4bb2a3d5e6079812c4d6e8fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c"
KEY_REQUEST: Final[dict[str, Any]] = {
    "name": "shop-crawler",
    "role": "operator",
    "project_id": "shop",
    "expires_in_s": 7776000,
}
KEY: Final[dict[str, Any]] = {
    "id": "key-1m7f8kvq2c9t0vj5p6x7r8n4e",
    "name": "shop-crawler",
    "role": "operator",
    "status": "live",
    "created_at": "2026-11-15T09:29:04.460000Z",
    "created_by": "admin",
    "project_id": "shop",
    "expires_at": "2027-02-13T09:29:04.460000Z",
    "last_used_at": "2026-11-15T09:31:40.120000Z",
    "last_used_from": "10.0.0.12",
}
NEW_KEY: Final[dict[str, Any]] = {
    "key": {name: KEY[name] for name in KEY if not name.startswith("last_")},
    "secret": _SHOWN_ONCE,
}
ROTATE_REQUEST: Final[dict[str, Any]] = {"grace_s": 3600}
JOIN_TOKEN_REQUEST: Final[dict[str, Any]] = {"name": "rack-7", "uses": 5, "expires_in_s": 86400}
NEW_JOIN_TOKEN: Final[dict[str, Any]] = {
    "join_token": {
        "id": "join-1m7f8kvr0w3d4q5z6y7h8j9k2",
        "name": "rack-7",
        "status": "live",
        "created_at": "2026-11-15T09:29:05.120000Z",
        "created_by": "admin",
        "cluster_id": "default",
        "max_uses": 5,
        "expires_at": "2026-11-16T09:29:05.120000Z",
    },
    "secret": _SHOWN_ONCE,
    "join": f"{_SHOWN_ONCE}.sha256-47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
}
NODE_TOKEN: Final[dict[str, Any]] = {
    "node_id": _NODE_ID,
    "node_token": _SHOWN_ONCE,
    "old_valid_until": 1794735543.952,
}
AUDIT: Final[dict[str, Any]] = {
    "items": [
        {
            "id": "audit-1m7f8kvs5b6n7m8q9w0e1r2t3",
            "at": "2026-11-15T09:31:40.121000Z",
            "actor": "shop-crawler",
            "actor_id": "key-1m7f8kvq2c9t0vj5p6x7r8n4e",
            "role": "operator",
            "action": "cancel_tasks",
            "count": 2,
            "subjects": [_TASK_ID, _WAITING_ID],
            "address": "10.0.0.12",
            "project_id": "shop",
        }
    ],
    "next_cursor": None,
}
SHARDS: Final[dict[str, Any]] = {
    "items": [
        {
            "id": _SHARD_ID,
            "project_id": "default",
            "cluster_id": "default",
            "task_type": "http_fetch",
            "parameters": {"urls": ["https://example.com/a", "https://example.com/b"]},
            "priority": 5,
            "status": "processing",
            "created_at": "2026-11-15T18:29:03.933242Z",
            "updated_at": "2026-11-15T18:29:03.956098Z",
            "retry_count": 0,
            "max_retries": 3,
            "parent_id": _PARENT_ID,
            "shard": 0,
            "shards": 4,
            "version": 3,
        }
    ],
    "next_cursor": None,
}
