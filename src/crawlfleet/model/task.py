"""Requested work, and the attempts at it.

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
    """One instance of a step. The id of its task follows from these: it cannot be made twice."""

    run_id: str
    step: str
    attempt: int = 1
    """Grows when the step is done anew in the same run."""
    index: int = 0
    """Which of the instances, for a step with `for_each`."""


UPDATE: Final = ":update"
COMPLETE: Final = ":complete"
PROGRESSED: Final = "task.progressed"
"""The kind of events that tell how far a task has got, of those that somebody is told of."""


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """Where the call-backs of a task or a run go, and whose secret signs them."""

    url: str
    """What `:update` and `:complete` are added to."""
    webhook_id: str
    """The webhook of the format `callback` that carries them."""

    @property
    def public_url(self) -> str:
        """The address without its query, which may be what lets the call-back in."""
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
    """Why an attempt did not succeed; retry policies choose by it."""

    ERROR = "error"
    """The work itself failed: an exception, a bad exit code."""
    NETWORK = "network"
    """The target could not be reached or broke off."""
    TIMEOUT = "timeout"
    """The attempt took longer than the task allows."""
    CRASH = "crash"
    """The executor process died under the work."""
    LOST = "lost"
    """The node fell silent or died; nobody knows how far the work got."""
    INVALID = "invalid"
    """The parameters make no sense to the executor; trying again cannot help."""
    BLOCKED = "blocked"
    """The target answers, and does not want us: forbidden, or too many requests."""


class Backoff(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The waits after errors of one class; what is not set is as for the others."""

    initial_delay_s: float | None = None
    factor: float | None = None
    max_delay_s: float | None = None


class RetryPolicy(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """When a failed attempt is tried again, and after which wait."""

    initial_delay_s: float = 1.0
    factor: float = 2.0
    max_delay_s: float = 300.0
    jitter: float = 0.5
    """Up to this share of the delay is added or taken off at random."""
    on: tuple[ErrorClass, ...] = (
        ErrorClass.ERROR,
        ErrorClass.NETWORK,
        ErrorClass.TIMEOUT,
        ErrorClass.CRASH,
        ErrorClass.LOST,
        ErrorClass.BLOCKED,
    )
    """The classes of errors that are tried again."""
    classes: dict[ErrorClass, Backoff] = {}
    """Other waits after errors of a class. Who is `blocked` waits a minute at first, unless
    something else is said here."""
    max_total_s: float | None = None
    """Seconds after the first failure: later it is not tried again, whatever is left of
    `max_retries`."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """All that placement needs to know of a task: tasks with equal requirements are one group.

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
    """The digest of the code; nodes that have it ready are preferred."""


class TaskError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong in an attempt, in words for people and a class for policies."""

    error_class: ErrorClass
    message: str
    details: str = ""
    first_at: float = 0.0
    """When the first of the failures in a row happened of which this is the last, in seconds since
    1970; only where the policy bounds the time for retries."""


HELD: Final = float("inf")
"""The `not_before` of a task that somebody has paused while it runs and stays where it is."""


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
    """The task that this one is a shard of."""
    shard: int | None = None
    """Which of them it is, from 0."""
    shards: int = 0
    """How many there are, for the parent and for each of them; 0 for a task that is whole."""
    bundle: BundleRef | None = None
    """The code that it runs, in the version that all of its attempts have."""
    secrets: tuple[str, ...] = ()
    """The names of those of its project that it is given, as they are when an attempt begins."""
    deadline: float | None = None
    """The instant by which it should be done."""
    step: StepRef | None = None
    """The step of a workflow's run that it does."""
    expectations: Expectations | None = None
    """What its items should be like; of a task that was split, those of all shards together."""
    callback: Callback | None = None
    """Who is told of it; of a part, who is told of the whole."""
    target: str | None = None
    """The site that it depends on; it waits while that is taken for down."""

    status: TaskStatus = TaskStatus.PENDING
    version: int = 1
    token: int = 0
    not_before: float = 0.0
    """When it may be placed, at the earliest. `HELD` while it runs and is held: when its attempt
    ends without a result, it is paused and does not begin again by itself."""
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
    """Set while the task stands in the dead-letter list: why it will not be tried again."""

    @property
    def is_parent(self) -> bool:
        """Whether others do its work, and it waits for them."""
        return self.shards > 0 and self.parent_id is None

    @property
    def is_held(self) -> bool:
        """Whether somebody has paused it while it runs."""
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
"""The fields that change in the life of a task; all others stay as they were when it was made."""
TASK_STEPS: Final = {
    TaskStatus.ASSIGNED: ("token", "assigned_node", "assigned_at", "execution_id"),
    TaskStatus.PROCESSING: ("started_at",),
    TaskStatus.COMPLETED: ("started_at", "completed_at", "result"),
}
"""What changes on the usual way to a state, beside `status`, `version` and `updated_at`."""
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
"""What is not set yet when a task is made."""


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """How one of the shards of a task stands, without its parameters and its result."""

    id: str
    shard: int
    status: TaskStatus
    execution_id: str | None = None
    assigned_node: str | None = None
    metrics: dict[str, float] = {}
    """Of the attempt that is its present or its last one."""


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
"""As `TASK_CHANGES`."""
EXECUTION_STEPS: Final = {
    ExecutionStatus.RUNNING: ("running_at",),
    ExecutionStatus.COMPLETED: ("running_at", "end_time", "metrics"),
}
"""As `TASK_STEPS`, beside `status` and `version`."""
EXECUTION_BLANKS: Final = ("running_at", "end_time", "error", "metrics")
"""As `TASK_BLANKS`."""
