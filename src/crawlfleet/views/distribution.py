"""Requests and answers of `/api/distribution`: devices and tasks under the names of that API.

A device is a node; the names here are those that its users know. Times are in seconds.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from crawlfleet.model.requests import Priority
from crawlfleet.model.task import DEFAULT_PRIORITY, EMPTY_OBJECT, JSON_NULL

DEVICE_ID = "device_id"
"""Label with the id that a device chose for itself."""
DEVICE_NAME = "device_name"
"""Label with the name of a device."""

DeviceStatus = Literal["online", "offline", "draining", "maintenance"]
TaskWord = Literal["running", "processing", "completed", "failed", "cancelled", "paused", "pending"]


class DeviceRegistration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of a device to register."""

    device_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """Id that the device chooses; it must be the same after a restart."""
    device_name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    device_type: str = "standard"
    host: str = ""
    port: int = 0
    region: str | None = None
    capabilities: dict[str, Any] = {}
    task_types: tuple[str, ...] = ()
    """Task types that the device can run; all when empty."""
    concurrent_tasks: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3


class RegisteredDevice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a registration: the device's id, key and heartbeat interval."""

    device_id: str
    node_id: str
    status: str
    heartbeat_interval: float
    device_timeout: float
    api_key: str | None = None
    """The device's own key, shown once, when the device is new."""


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """A device as it is now."""

    device_id: str
    node_id: str
    device_name: str
    device_type: str
    status: str
    health: str
    health_reason: str
    host: str
    port: int
    concurrent_tasks: int
    current_tasks: int
    cpu_usage: float | None
    memory_usage: float | None
    disk_usage: float | None
    last_heartbeat: datetime | None
    registered_at: datetime


class DeviceList(msgspec.Struct, frozen=True, kw_only=True):
    devices: list[DeviceView]
    total: int


class DeviceStatusChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: DeviceStatus
    """`online`: the device gets work; `maintenance`: it gets no new work; `draining`: it leaves
    when its work is done; `offline`: it leaves now."""


class DeviceHeartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cpu_usage: float = 0.0
    """CPU usage from 0 to 1, as for memory and disk."""
    memory_usage: float = 0.0
    disk_usage: float | None = None
    current_tasks: tuple[str, ...] = ()
    """Ids of the tasks that the device works on."""


class DeviceHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    device_id: str
    status: str
    timestamp: datetime
    registered: bool
    """True if the master considers the device alive; if false, it must stop all work and
    register."""
    stop_tasks: tuple[str, ...] = ()
    """Tasks that the device must stop: they were cancelled or belong to another device now."""


class NewTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to submit."""

    task_type: str
    parameters: msgspec.Raw = msgspec.field(default_factory=EMPTY_OBJECT.copy)
    priority: Priority = DEFAULT_PRIORITY
    """1 to 10; 10 is the most urgent."""
    task_timeout: float | None = None
    """Timeout of one attempt in seconds; `distribution.task_timeout_s` when not set."""
    max_retry_count: int | None = None
    """Maximum number of retries; `distribution.max_retries` when not set."""
    project_id: str | None = None
    load_balance_strategy: str | None = None


class DistributedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it is now."""

    task_id: str
    task_type: str
    status: str
    priority: int
    device_id: str | None
    token: int
    """Fencing token of the newest attempt."""
    retry_count: int
    max_retry_count: int
    task_timeout: float | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    result: Any
    error: str | None


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    tasks: list[DistributedTask]
    next_cursor: str | None


class AssignRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    device_id: str


class TaskStatusChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A status that a device reports for its task, or that an operator orders."""

    status: TaskWord
    """New status. A device sends `running`, `completed` or `failed`; an operator `cancelled`,
    `paused`, or `pending` for another attempt."""
    token: int | None = None
    """Token of the attempt, as it was pulled; optional only for the first attempt."""
    result: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """Result of a `completed` task: any JSON of at most 1 MB."""
    error: str | None = None
    """Reason of a `failed` task."""


class PulledTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is assigned to the device."""

    task_id: str
    task_type: str
    parameters: msgspec.Raw
    token: int
    attempt: int
    task_timeout: float | None


class PulledTasks(msgspec.Struct, frozen=True, kw_only=True):
    tasks: list[PulledTask]
    stop_tasks: tuple[str, ...]
    """Tasks that the device must stop."""
    registered: bool
    """True if the master considers the device alive; if false, it must stop all work and
    register."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The whole system in a few numbers."""

    version: str
    leader: str
    devices: dict[str, int]
    """Number of devices by status."""
    health: dict[str, int]
    tasks: dict[str, int]
    """Number of tasks by status."""
    ready_tasks: int
    running_tasks: int
    oldest_ready: float | None
    completed_per_second: float
    """Completed tasks per second in the last minute."""


class DeviceStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a device for the last hour."""

    device_id: str
    status: str
    health: str
    current_tasks: int
    ended: int
    errors: int
    error_rate: float | None
    mean_duration: float | None
    cpu_usage: float | None
    """Mean of the hour, as for `memory_usage`."""
    memory_usage: float | None


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of tasks."""

    total: int
    by_status: dict[str, int]
    completed_last_minute: int
    completed_last_hour: int
    failed_last_hour: int
    failures: dict[str, int]
    """Number of failed attempts in the last hour, by error class."""
