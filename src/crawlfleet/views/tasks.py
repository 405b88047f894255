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
"""Of parameters in a brief list."""


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
    """The step of the workflow's run that it does."""
    min_resources: dict[str, float] = {}
    capabilities: dict[str, Any] = {}
    node_type: str | None = None
    schedule_strategy: str | None = None
    target_region: str | None = None
    content_features: dict[str, Any] = {}
    categories: tuple[str, ...] = ()
    timeout: float | None = None
    deadline: datetime | None = None
    """By when it should be done."""
    retry_policy: RetryPolicy | None = None
    """Only where it differs from the default."""
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
    """While it runs, and only of a task that is asked for by its id; of one that was split, the
    sum of its shards'."""
    parent_id: str | None = None
    """The task that it is a shard of."""
    shard: int | None = None
    """Which of them it is, from 0."""
    shards: int = 0
    """How many shards there are, for the task that was split and for each of them."""
    shard_states: dict[str, int] = {}
    """How many shards are in which state; only of a task that is asked for by its id."""
    bundle: str | None = None
    """The code that it runs, with its version, such as `quotes@3`."""
    secrets: tuple[str, ...] = ()
    """The names of those that it is given."""
    expectations: Expectations | None = None
    """What its items should be like; `quality` in its result says whether they are."""
    callback_url: str | None = None
    """Who is told of it."""
    target: str | None = None
    """The site that it depends on: it waits while that is taken for down."""
    version: int = 0
    """Grows with each change; the `ETag` begins with it."""

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
    """1 when this is an earlier task that does the same work."""
    shards: int = 0
    """How many tasks it was split into; it waits for them."""

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
    """What became of one task of a batch."""

    id: str | None = None
    status: TaskState | None = None
    deduplicated: bool = False
    error: Problem | None = None


class BatchReply(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BatchItem]
    deduplicated: int


class RefusedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A task that an order could not be carried out for, and why."""

    id: str
    detail: str


class BulkReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order about many tasks."""

    changed: int
    unchanged: int
    """Tasks that were already as ordered."""
    refused_count: int
    refused: list[RefusedOrder]
    """The first 100 of them."""
    next_cursor: str | None = None
    """Send it as `cursor` to go on with the filter's other tasks; `null` when there are none."""


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TaskView]
    next_cursor: str | None


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task is in its state, and what would have to change."""

    task_id: str
    status: TaskState
    summary: str
    """One sentence for people."""
    placement: Explanation | None = None
    ready_tasks: int | None = None
    """How many tasks of all projects are ready with it; not for a key of one project."""
    ready_at: float | None = None
    """When it will be, in seconds since 1970, if it has to wait first."""
    shards: dict[str, int] = {}
    """Of a task that was split: how many of its shards are in which state."""
    quotas: tuple[QuotaHold, ...] = ()
    """The quotas of its project that hold it back."""
    target: str | None = None
    """The site that it depends on, of a task that is held back."""
