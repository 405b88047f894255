"""Real answers about tasks that were split."""

from typing import Any, Final

_PARENT_ID: Final = "task-1m7hg3wq2q8b2jmw0xbd8ex9t"
_SHARD_ID: Final = "task-1m7hg3wq2rd0fsv6hsx2pm8k4"

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
