"""What may be set where the client takes `**fields` or `**filters`, so that a type checker finds
a misspelt name. A test holds them against the API."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

TaskVerb = Literal["cancel", "pause", "resume", "retry"]
"""What can be ordered about one task."""
TasksVerb = Literal["cancel", "pause", "resume", "retry", "reprioritise"]
"""What can be ordered about many."""


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
    """What is other in a task that is submitted again."""

    parameters: Mapping[str, Any] | None
    priority: int | None
    idempotency_key: str | None


class TaskFilters(TypedDict, total=False):
    """Which tasks are listed, and how."""

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
    """Which tasks an order is about."""

    status: str | Sequence[str]
    project_id: str | None
    cluster_id: str | None
    task_type: str | None
    workflow_id: str | None
    assigned_node: str | None
    dead: bool | None
    parent_id: str | None


class DeadLetterChoice(TypedDict, total=False):
    """Which dead letters are listed, or an order is about."""

    project_id: str | None
    cluster_id: str | None
    task_type: str | None
    workflow_id: str | None
    assigned_node: str | None
    status: Literal["failed", "timeout"] | None
    error_class: str | None
    reason: str | None


CrawlVerb = Literal["pause", "resume", "stop"]
"""What can be ordered about a crawl."""


class KeyFields(TypedDict, total=False):
    """A key, besides its name and its role."""

    project_id: str | None
    expires_in_s: float | None


class RotateFields(TypedDict, total=False):
    """How a key gets its new secret."""

    grace_s: float
    expires_in_s: float | None


class JoinTokenFields(TypedDict, total=False):
    """A token with which nodes join."""

    name: str | None
    cluster_id: str
    uses: int
    expires_in_s: float


class AuditFilters(TypedDict, total=False):
    """Which entries of the audit log are listed."""

    actor: str
    action: str
    subject: str
    since: str
    until: str
