"""Types of the client's `**fields` and `**filters`, so that a type checker finds a misspelt name. A
test compares them with the API.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

TaskVerb = Literal["cancel", "pause", "resume", "retry"]
"""Orders about one task."""
TasksVerb = Literal["cancel", "pause", "resume", "retry", "reprioritise"]
"""Orders about many tasks."""


class TaskFields(TypedDict, total=False):
    """A task, besides its type and its parameters."""

    project_id: str
    cluster_id: str
    workflow_id: str | None
    bundle: str | None
    secrets: Sequence[str]
    priority: int
    min_resources: Mapping[str, float]
    capabilities: Mapping[str, Any]
    content_features: Mapping[str, Any]
    categories: Sequence[str]
    node_type: str | None
    schedule_strategy: str | None
    target_region: str | None
    isolation: str | None
    max_retries: int
    retry_policy: Any
    timeout: float | None
    deadline: float | None
    idempotency_key: str | None
    dedup_key: str | None
    dedup_window: float
    expectations: Any
    callback_url: str | None
    target: str | None
    breaker: bool


class CloneFields(TypedDict, total=False):
    """Fields that differ in a task that is submitted again."""

    parameters: Mapping[str, Any] | None
    priority: int | None
    idempotency_key: str | None


class TaskFilters(TypedDict, total=False):
    """Filters and options of a list of tasks."""

    status: str
    project_id: str | None
    cluster_id: str | None
    task_type: str | None
    workflow_id: str | None
    assigned_node: str | None
    parent_id: str | None
    dead: bool | None
    brief: bool


class TaskChoice(TypedDict, total=False):
    """Filters that choose the tasks of an order."""

    status: str | Sequence[str]
    project_id: str | None
    cluster_id: str | None
    task_type: str | None
    workflow_id: str | None
    assigned_node: str | None
    dead: bool | None
    parent_id: str | None


class DeadLetterChoice(TypedDict, total=False):
    """Filters that choose the dead letters of a list or an order."""

    project_id: str | None
    cluster_id: str | None
    task_type: str | None
    workflow_id: str | None
    assigned_node: str | None
    status: Literal["failed", "timeout"] | None
    error_class: str | None
    reason: str | None


CrawlVerb = Literal["pause", "resume", "stop"]
"""Orders about a crawl."""


class KeyFields(TypedDict, total=False):
    """A key, besides its name and its role."""

    project_id: str | None
    expires_in_s: float | None


class RotateFields(TypedDict, total=False):
    """Options for the rotation of a key."""

    grace_s: float
    expires_in_s: float | None


class JoinTokenFields(TypedDict, total=False):
    """A token with which nodes join."""

    name: str | None
    cluster_id: str
    uses: int
    expires_in_s: float


class AuditFilters(TypedDict, total=False):
    """Filters of a list of entries of the audit log."""

    actor: str
    action: str
    subject: str
    since: str
    until: str
