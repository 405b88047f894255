"""Things as the API shows them: instants in ISO 8601, no secrets, no inner bookkeeping."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from crawlfleet.errors import FieldProblem
from crawlfleet.model.explanation import Explanation
from crawlfleet.model.log import LogLevel
from crawlfleet.model.node import Health, NodeStatus
from crawlfleet.model.quality import Expectations
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import ExecutionStatus, RetryPolicy, StepRef, TaskError, TaskStatus
from crawlfleet.views.quotas import QuotaHold


def _names(of: type[StrEnum]) -> msgspec.Meta:
    """Told in the schema alone: a client goes on working when a new master has one more."""
    return msgspec.Meta(extra_json_schema={"enum": [str(each) for each in of]})


TaskState = Annotated[str, _names(TaskStatus)]
ExecutionState = Annotated[str, _names(ExecutionStatus)]
NodeState = Annotated[str, _names(NodeStatus)]


class ProgressView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the work has got, in whatever it counts."""

    done: float
    total: float | None = None
    at: datetime


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


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt."""

    id: str
    task_id: str
    node_id: str
    token: int
    status: ExecutionState
    start_time: datetime
    running_at: datetime | None = None
    end_time: datetime | None = None
    retry_count: int = 0
    allocation: Resources = Resources()
    error: TaskError | None = None
    metrics: dict[str, float] = {}
    progress: ProgressView | None = None
    """While it runs; `metrics` has the last of it afterwards."""


class LogLineView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of an execution's log."""

    seq: int
    at: datetime
    level: Annotated[str, _names(LogLevel)]
    message: str
    fields: dict[str, Any] = {}


class NodeSampleView(msgspec.Struct, frozen=True, kw_only=True):
    """How a node was at an instant, or on average from then on."""

    at: datetime
    count: int
    """How many heartbeats it is made of."""
    cpu_usage: float
    memory_usage: float
    gpu_usage: float | None
    network_io: float
    disk_io: float
    load: float
    active_tasks: float
    ended: int
    """Executions that ended since the sample before."""
    errors: int
    """Those of them that did not succeed."""
    latency_s: float | None
    """How long they took on average."""
    disk_usage: float | None = None
    wait_s: float | None = None
    """How long they waited at the node before they began, on average."""


class NodeHistoryView(msgspec.Struct, frozen=True, kw_only=True):
    """A node over time, oldest first."""

    node_id: str
    resolution: str
    items: list[NodeSampleView]


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A point on the map, in degrees."""

    latitude: float
    longitude: float


class ConditionView(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a node that is not as it should be."""

    kind: str
    """`cpu`, `memory`, `disk`, `errors`, `latency`, `clock` or `probe`."""
    health: Annotated[str, _names(Health)]
    reason: str
    since: datetime
    value: float | None = None
    """What was measured when it began, in the unit of its setting; null where nothing was."""
    limit: float | None = None
    """What it should have stayed within."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node: capacity in `resources`, the newest measurement in `usage`."""

    id: str
    name: str
    description: str
    cluster_id: str
    ip_address: str
    port: int
    node_type: str
    region: str | None
    labels: dict[str, str]
    capabilities: dict[str, Any]
    task_types: tuple[str, ...]
    resources: Resources
    status: NodeState
    health: Annotated[str, _names(Health)]
    usage: dict[str, float | None]
    load: float
    active_tasks: tuple[str, ...]
    last_heartbeat: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int = 0
    """Grows with each change, but not with heartbeats; the `ETag` begins with it."""
    configuration_version: int | None = None
    """The version of its cluster's settings that it runs, as it says."""
    location: Location | None = None
    """The middle of its `region`, where that is known."""
    health_reason: str = ""
    """Why it is not healthy; empty when it is."""
    health_at: datetime | None = None
    """Since when its health is what it is."""
    conditions: tuple[ConditionView, ...] = ()
    """What its health is made of."""
    probe: bool = False
    """Whether the master asks its health endpoint."""
    drain_until: datetime | None = None
    """When what still runs on a draining node is taken back."""


class EventView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened."""

    seq: int
    kind: str
    subject: str
    at: datetime
    cause: str
    from_state: str | None = None
    to_state: str | None = None
    details: dict[str, Any] = {}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, for programs (`type`, `status`) and for people (`detail`, `errors`)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    errors: tuple[FieldProblem, ...] = ()


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


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ExecutionView]
    next_cursor: str | None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: str | None
    """Whose log it is; `null` for a task that was not attempted yet."""
    items: list[LogLineView]
    next_cursor: str | None


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[EventView]
    next_cursor: str | None


class NodePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[NodeView]
    next_cursor: str | None


class Liveness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the master is."""

    status: str
    reason: str = ""
    leader: bool | None = None
    """Whether this master leads: dispatches, and watches the clock."""
    epoch: int | None = None
    """How often the lead was taken."""
    led_by: str | None = None
    """The address of the master that leads, or led last."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet in a few numbers."""

    tasks: dict[str, int]
    nodes: dict[str, int]
    ready: int
    delayed: int
    running: int


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The master, and the fleet in a few numbers."""

    version: str
    epoch: int
    """How often the lead was taken."""
    totals: Totals
    leader: bool = True
    """Whether the master that answers leads: dispatches, and watches the clock."""
    led_by: str = ""
    """The address of the master that leads, or led last."""


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
