"""What people and programs ask for, as it stands on the wire."""

from typing import Any

import msgspec

from crawlfleet.model.project import DEFAULT_CLUSTER, DEFAULT_PROJECT
from crawlfleet.model.task import DEFAULT_PRIORITY, EMPTY_OBJECT, JSON_NULL, RetryPolicy


class TaskRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be done. Ranges and names are judged by admission, not by the types here."""

    task_type: str
    project_id: str = DEFAULT_PROJECT
    cluster_id: str = DEFAULT_CLUSTER
    workflow_id: str | None = None
    parameters: msgspec.Raw = EMPTY_OBJECT
    priority: int = DEFAULT_PRIORITY
    min_resources: dict[str, float] = {}
    capabilities: dict[str, Any] = {}
    content_features: dict[str, Any] = {}
    categories: tuple[str, ...] = ()
    node_type: str | None = None
    schedule_strategy: str | None = None
    target_region: str | None = None
    max_retries: int = 3
    retry_policy: RetryPolicy = RetryPolicy()
    timeout: float | None = None
    """Seconds that one attempt may take."""
    idempotency_key: str | None = None
    dedup_key: str | None = None
    dedup_window: float = 3600.0
    """Seconds after its end in which a task still keeps its `dedup_key`."""


class CloneRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same task once more; what is set here replaces what the original had."""

    parameters: msgspec.Raw = JSON_NULL
    priority: int | None = None
