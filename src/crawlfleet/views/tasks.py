"""Tasks as the API shows them: instants in ISO 8601, no secrets, no inner bookkeeping."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Self

import msgspec

from crawlfleet.model.explanation import Explanation
from crawlfleet.model.log import Progress
from crawlfleet.model.quality import Expectations
from crawlfleet.model.task import RetryPolicy, Shard, StepRef, Task, TaskError, TaskStatus
from crawlfleet.views.executions import ProgressView
from crawlfleet.views.fields import instant, moment, names
from crawlfleet.views.problems import Problem
from crawlfleet.views.quotas import QuotaHold

TaskState = Annotated[str, names(TaskStatus)]

MAX_BRIEF_BYTES: Final = 2000
"""Limit for parameters in a brief list."""


class TaskView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole task."""

    id: str
    project_id: str
    cluster_id: str
    task_type: str
    parameters: Any
    priority: int
    status: TaskState
    created_at: datetime
    updated_at: datetime
    retry_count: int
    max_retries: int
    workflow_id: str | None = None
    step: StepRef | None = None
    """The step of a workflow run that the task carries out."""
    min_resources: dict[str, float] = {}
    capabilities: dict[str, Any] = {}
    node_type: str | None = None
    schedule_strategy: str | None = None
    target_region: str | None = None
    content_features: dict[str, Any] = {}
    categories: tuple[str, ...] = ()
    timeout: float | None = None
    deadline: datetime | None = None
    """Time by which the task should be done."""
    retry_policy: RetryPolicy | None = None
    """Retry policy, where it differs from the default."""
    idempotency_key: str | None = None
    dedup_key: str | None = None
    loss_count: int = 0
    not_before: datetime | None = None
    assigned_node: str | None = None
    assigned_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    result: Any = None
    error: TaskError | None = None
    dead_reason: str | None = None
    progress: ProgressView | None = None
    """Progress while the task runs; only in the answer for a single task. For a split task, the sum
    of its shards."""
    parent_id: str | None = None
    """The task that this task is a shard of."""
    shard: int | None = None
    """Number of this shard, from 0."""
    shards: int = 0
    """Number of shards, for the split task and for each of its shards."""
    shard_states: dict[str, int] = {}
    """Number of shards in each state; only in the answer for a single task."""
    bundle: str | None = None
    """The code that the task runs, with its version, such as `quotes@3`."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that the task gets."""
    expectations: Expectations | None = None
    """Expectations of the task's items; `quality` in the result has the verdict."""
    callback_url: str | None = None
    """Receiver of call-backs about the task."""
    target: str | None = None
    """The site that the task depends on: the task waits while the site's circuit breaker is
    open."""
    version: int = 0
    """Increases with each change; the `ETag` begins with it."""

    @classmethod
    def of(cls, task: Task, progress: Progress | None = None, shards: Sequence[Shard] = ()) -> Self:
        return cls(
            id=task.id,
            project_id=task.project_id,
            cluster_id=task.cluster_id,
            task_type=task.task_type,
            parameters=task.parameters,
            priority=task.priority,
            status=str(task.status),
            created_at=moment(task.created_at),
            updated_at=moment(task.updated_at),
            retry_count=task.retry_count,
            max_retries=task.max_retries,
            workflow_id=task.workflow_id,
            step=task.step,
            min_resources=task.min_resources,
            capabilities=task.capabilities,
            node_type=task.node_type,
            schedule_strategy=task.schedule_strategy,
            target_region=task.target_region,
            content_features=task.content_features,
            categories=task.categories,
            timeout=task.timeout_s,
            deadline=instant(task.deadline),
            retry_policy=None if task.retry_policy == RetryPolicy() else task.retry_policy,
            idempotency_key=task.idempotency_key,
            dedup_key=task.dedup_key,
            loss_count=task.loss_count,
            not_before=None if task.is_held else instant(task.not_before or None),
            assigned_node=task.assigned_node,
            assigned_at=instant(task.assigned_at),
            started_at=instant(task.started_at),
            completed_at=instant(task.completed_at),
            result=task.result,
            error=task.error,
            dead_reason=task.dead_reason,
            progress=None if progress is None else ProgressView.of(progress),
            parent_id=task.parent_id,
            shard=task.shard,
            shards=task.shards,
            shard_states=dict(Counter(str(each.status) for each in shards)) if shards else {},
            bundle=None if task.bundle is None else str(task.bundle),
            secrets=task.secrets,
            expectations=task.expectations,
            callback_url=None if task.callback is None else task.callback.public_url,
            target=task.target,
            version=task.version,
        )

    @classmethod
    def brief(cls, task: Task) -> Self:
        """A task for a long list: without its result, and without parameters that are long."""
        parameters = task.parameters if len(bytes(task.parameters)) <= MAX_BRIEF_BYTES else None
        return msgspec.structs.replace(cls.of(task), parameters=parameters, result=None)


class TaskReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a submission."""

    id: str
    status: TaskState
    created_at: datetime
    priority: int
    deduplicated: int = 0
    """1 when this is an earlier task with the same `dedup_key`."""
    shards: int = 0
    """Number of shards that the task was split into; it waits for them."""

    @classmethod
    def of(cls, task: Task, *, deduplicated: bool = False) -> Self:
        return cls(
            id=task.id,
            status=str(task.status),
            created_at=moment(task.created_at),
            priority=task.priority,
            deduplicated=int(deduplicated),
            shards=task.shards,
        )


class BatchItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one task of a batch."""

    id: str | None = None
    status: TaskState | None = None
    deduplicated: bool = False
    error: Problem | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BatchItem]
    deduplicated: int


class RefusedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an order was refused for, with the reason."""

    id: str
    detail: str


class BulkReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an order for many tasks."""

    changed: int
    unchanged: int
    """Tasks that were in the ordered state already."""
    refused_count: int
    refused: list[RefusedOrder]
    """The first 100 refusals."""
    next_cursor: str | None = None
    """Value of `cursor` for the next request with the same filter; `null` when no tasks are
    left."""


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TaskView]
    next_cursor: str | None


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task is in its state, and what has to change for it to run."""

    task_id: str
    status: TaskState
    summary: str
    """One sentence for people."""
    placement: Explanation | None = None
    ready_tasks: int | None = None
    """Number of ready tasks of all projects with this one; not for a key of one project."""
    ready_at: float | None = None
    """Time when the task will be ready, in seconds since 1970, if it has to wait first."""
    shards: dict[str, int] = {}
    """Number of shards in each state, for a split task."""
    quotas: tuple[QuotaHold, ...] = ()
    """Quotas of the project that hold the task back."""
    target: str | None = None
    """The site that the task depends on, if its circuit breaker holds the task back."""
