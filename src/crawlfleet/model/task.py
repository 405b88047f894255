"""Tasks: requested work, and executions: the attempts at it.

`parameters` and `result` stay raw JSON: the control plane stores and forwards them without
looking inside, so that a large payload costs one copy and not a parse and a print at each hop.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.project import DEFAULT_CLUSTER
from crawlfleet.model.quality import Expectations
from crawlfleet.model.resources import NOTHING, Resources


class StepRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of a workflow step. The id of its task is derived from it, so no second task can
    be created."""

    run_id: str
    step: str
    attempt: int = 1
    """Increases when the step is repeated in the same run."""
    index: int = 0
    """Number of the instance, for a step with `for_each`."""


UPDATE: Final = ":update"
COMPLETE: Final = ":complete"
PROGRESSED: Final = "task.progressed"
"""Kind of progress events of tasks that have a call-back."""


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """Receiver of call-backs of a task or run, and the webhook whose secret signs them."""

    url: str
    """Address that `:update` and `:complete` are added to."""
    webhook_id: str
    """Webhook of the format `callback` that delivers them."""

    @property
    def public_url(self) -> str:
        """Return the address without its query, which may contain the receiver's secret."""
        return without_query(self.url)


def without_query(url: str) -> str:
    """The address; of its query only that there is one."""
    address, query, _ = url.partition("?")
    return f"{address}?…" if query else url


EMPTY_OBJECT: Final = msgspec.Raw(b"{}")
JSON_NULL: Final = msgspec.Raw(b"null")
DEFAULT_PRIORITY: Final = 5
MIN_PRIORITY: Final = 1
MAX_PRIORITY: Final = 10


class TaskStatus(StrEnum):
    WAITING = "waiting"
    PENDING = "pending"
    ASSIGNED = "assigned"
    PROCESSING = "processing"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED}
)
LEASED: Final = frozenset({TaskStatus.ASSIGNED, TaskStatus.PROCESSING})


class ErrorClass(StrEnum):
    """The class of an attempt's error; retry policies depend on it."""

    ERROR = "error"
    """The work itself failed: an exception, a bad exit code."""
    NETWORK = "network"
    """The target could not be reached or broke off."""
    TIMEOUT = "timeout"
    """The attempt took longer than the task allows."""
    CRASH = "crash"
    """The executor process died under the work."""
    LOST = "lost"
    """The node fell silent or died; the progress of the work is unknown."""
    INVALID = "invalid"
    """The parameters are invalid for the executor; a retry cannot help."""
    BLOCKED = "blocked"
    """The target refused: forbidden, or too many requests."""


class Backoff(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Delays after errors of one class; values that are not set are as for other classes."""

    initial_delay_s: float | None = None
    factor: float | None = None
    max_delay_s: float | None = None


class RetryPolicy(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Rules for retries of failed attempts, and the delays before them."""

    initial_delay_s: float = 1.0
    factor: float = 2.0
    max_delay_s: float = 300.0
    jitter: float = 0.5
    """Maximum share of the delay that is added or subtracted at random."""
    on: tuple[ErrorClass, ...] = (
        ErrorClass.ERROR,
        ErrorClass.NETWORK,
        ErrorClass.TIMEOUT,
        ErrorClass.CRASH,
        ErrorClass.LOST,
        ErrorClass.BLOCKED,
    )
    """Error classes that are retried."""
    classes: dict[ErrorClass, Backoff] = {}
    """Other delays by error class. By default the first delay after `blocked` is a minute."""
    max_total_s: float | None = None
    """Seconds after the first failure after which there is no retry, even if `max_retries` has not
    been reached."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """The properties of a task that placement uses: tasks with equal requirements form one group.

    `capabilities` and `content_features` are sorted pairs, so that a requirement can be hashed.
    Values are bool, number, text, or a tuple of texts.
    """

    task_type: str
    cluster_id: str = DEFAULT_CLUSTER
    node_type: str | None = None
    capabilities: tuple[tuple[str, Any], ...] = ()
    demand: Resources = NOTHING
    strategy: str | None = None
    target_region: str | None = None
    content_features: tuple[tuple[str, Any], ...] = ()
    bundle: str = ""
    """Digest of the code; nodes that have it prepared are preferred."""


class TaskError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of an attempt: a message for people and a class for retry policies."""

    error_class: ErrorClass
    message: str
    details: str = ""
    first_at: float = 0.0
    """Time of the first in this row of failures, in seconds since 1970; only where the policy
    limits the time for retries."""


HELD: Final = float("inf")
"""`not_before` of a running task that was paused and keeps its node."""


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One unit of requested work. `version` grows by one with each committed change.

    `token` is the fencing token of the newest lease; it only grows. `retry_count` counts the
    failures that used up a retry, `loss_count` the attempts that vanished with their node.

    A task that was split is the parent of its shards: it is never placed itself, waits until they
    have all ended, and then has their results as its own.
    """

    id: str
    project_id: str
    task_type: str
    created_at: float
    updated_at: float
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
    timeout_s: float | None = None
    idempotency_key: str | None = None
    dedup_key: str | None = None
    dedup_window_s: float = 0.0
    parent_id: str | None = None
    """Id of the task that this task is a shard of."""
    shard: int | None = None
    """Number of this shard, from 0."""
    shards: int = 0
    """Number of shards, for the parent and for each shard; 0 for a task that is not split."""
    bundle: BundleRef | None = None
    """Code that the task runs, in the same version for all attempts."""
    secrets: tuple[str, ...] = ()
    """Names of the project's secrets that the task gets, with their values at the start of an
    attempt."""
    deadline: float | None = None
    """Time by which the task should be done."""
    step: StepRef | None = None
    """The step of a workflow run that the task carries out."""
    expectations: Expectations | None = None
    """Expectations of the task's items; of a split task, for all shards together."""
    callback: Callback | None = None
    """Receiver of call-backs; for a shard, that of the parent."""
    target: str | None = None
    """Site that the task depends on: the task waits while the site's circuit breaker is open."""

    status: TaskStatus = TaskStatus.PENDING
    version: int = 1
    token: int = 0
    not_before: float = 0.0
    """Earliest time at which the task may be placed. `HELD` while it runs and is paused: if its
    attempt ends without a result, the task is paused and not started again by itself."""
    retry_count: int = 0
    loss_count: int = 0
    assigned_node: str | None = None
    assigned_at: float | None = None
    execution_id: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    result: msgspec.Raw | None = None
    error: TaskError | None = None
    dead_reason: str | None = None
    """Reason why the task is a dead letter and is not retried; only while it is one."""

    @property
    def is_parent(self) -> bool:
        """Return whether the task was split, so that it waits for its shards."""
        return self.shards > 0 and self.parent_id is None

    @property
    def is_held(self) -> bool:
        """Return whether the task was paused while it runs."""
        return self.not_before == HELD


TASK_CHANGES: Final = (
    "priority",
    "status",
    "version",
    "token",
    "not_before",
    "updated_at",
    "retry_count",
    "loss_count",
    "assigned_node",
    "assigned_at",
    "execution_id",
    "started_at",
    "completed_at",
    "result",
    "error",
    "dead_reason",
)
"""Fields that change during the life of a task; all others stay as they were at its creation."""
TASK_STEPS: Final = {
    TaskStatus.ASSIGNED: ("token", "assigned_node", "assigned_at", "execution_id"),
    TaskStatus.PROCESSING: ("started_at",),
    TaskStatus.COMPLETED: ("started_at", "completed_at", "result"),
}
"""Fields that change on the usual way to a state, besides `status`, `version` and `updated_at`."""
TASK_BLANKS: Final = (
    "assigned_node",
    "assigned_at",
    "execution_id",
    "started_at",
    "completed_at",
    "result",
    "error",
    "dead_reason",
)
"""Fields that are not set when a task is created."""


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a shard, without its parameters and result."""

    id: str
    shard: int
    status: TaskStatus
    execution_id: str | None = None
    assigned_node: str | None = None
    metrics: dict[str, float] = {}
    """Metrics of its present or last attempt."""


class ExecutionStatus(StrEnum):
    ASSIGNED = "assigned"
    RUNNING = "running"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    RELEASED = "released"
    LOST = "lost"


LIVE_EXECUTION: Final = frozenset(
    {ExecutionStatus.ASSIGNED, ExecutionStatus.RUNNING, ExecutionStatus.STOPPING}
)
"""States in which an execution holds its node's resources."""


class Execution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt of a task on one node, under one fencing token."""

    id: str
    task_id: str
    node_id: str
    session_id: str
    token: int
    start_time: float
    reserved: Resources = NOTHING
    allocation: Resources = NOTHING
    status: ExecutionStatus = ExecutionStatus.ASSIGNED
    version: int = 1
    running_at: float | None = None
    end_time: float | None = None
    retry_count: int = 0
    error: TaskError | None = None
    metrics: dict[str, float] = {}


EXECUTION_CHANGES: Final = ("status", "version", "running_at", "end_time", "error", "metrics")
"""Fields that change during the life of an execution, as `TASK_CHANGES`."""
EXECUTION_STEPS: Final = {
    ExecutionStatus.RUNNING: ("running_at",),
    ExecutionStatus.COMPLETED: ("running_at", "end_time", "metrics"),
}
"""Fields that change on the usual way to a state, besides `status` and `version`, as
`TASK_STEPS`."""
EXECUTION_BLANKS: Final = ("running_at", "end_time", "error", "metrics")
"""Fields that are not set when an execution is created, as `TASK_BLANKS`."""
