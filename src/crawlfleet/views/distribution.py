"""What is said over `/api/distribution`: devices and tasks in the words of that API.

A device is a node; the names here are those that its users know. Times are in seconds.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from crawlfleet.model.requests import Priority
from crawlfleet.model.task import DEFAULT_PRIORITY, EMPTY_OBJECT, JSON_NULL

DEVICE_ID = "device_id"
"""The label that has the id which a device gave itself."""
DEVICE_NAME = "device_name"
"""The label that has the name which people gave it."""

DeviceStatus = Literal["online", "offline", "draining", "maintenance"]
TaskWord = Literal["running", "processing", "completed", "failed", "cancelled", "paused", "pending"]


class DeviceRegistration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device introduces itself."""

    device_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    """Chosen by the device, the same after a restart."""
    device_name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    device_type: str = "standard"
    host: str = ""
    port: int = 0
    region: str | None = None
    capabilities: dict[str, Any] = {}
    task_types: tuple[str, ...] = ()
    """What it can run; anything when empty."""
    concurrent_tasks: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3


class RegisteredDevice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: with what the device speaks from now on, and how often."""

    device_id: str
    node_id: str
    status: str
    heartbeat_interval: float
    device_timeout: float
    api_key: str | None = None
    """The device's own key, shown once, when it is new."""


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
    """`online` takes work again, `maintenance` takes none, `draining` leaves when it is empty,
    `offline` leaves now."""


class DeviceHeartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cpu_usage: float = 0.0
    """Shares are from 0 to 1."""
    memory_usage: float = 0.0
    disk_usage: float | None = None
    current_tasks: tuple[str, ...] = ()
    """The ids of the tasks that it works on."""


class DeviceHeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    device_id: str
    status: str
    timestamp: datetime
    registered: bool
    """Whether it is still taken for alive; if not, it has to stop everything and register."""
    stop_tasks: tuple[str, ...] = ()
    """Tasks that it must not go on with: cancelled, or somebody else's by now."""


class NewTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be done."""

    task_type: str
    parameters: msgspec.Raw = msgspec.field(default_factory=EMPTY_OBJECT.copy)
    priority: Priority = DEFAULT_PRIORITY
    """1 to 10; 10 is the most urgent."""
    task_timeout: float | None = None
    """Seconds that one attempt may take; `distribution.task_timeout_s` when not set."""
    max_retry_count: int | None = None
    """`distribution.max_retries` when not set."""
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
    """Of its newest attempt."""
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
    """What a device says of its task, or what somebody orders about it."""

    status: TaskWord
    """From a device `running`, `completed` or `failed`; from an operator `cancelled`, `paused`, or
    `pending` for another try."""
    token: int | None = None
    """Of the attempt that is meant, as it was pulled; only the first one needs none."""
    result: msgspec.Raw = msgspec.field(default_factory=JSON_NULL.copy)
    """For `completed`: any JSON of at most 1 MB."""
    error: str | None = None
    """For `failed`: why."""


class PulledTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a device has to do."""

    task_id: str
    task_type: str
    parameters: msgspec.Raw
    token: int
    attempt: int
    task_timeout: float | None


class PulledTasks(msgspec.Struct, frozen=True, kw_only=True):
    tasks: list[PulledTask]
    stop_tasks: tuple[str, ...]
    """Tasks that it must not go on with."""
    registered: bool
    """Whether it is still taken for alive; if not, it has to stop everything and register."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The whole system in a few numbers."""

    version: str
    leader: str
    devices: dict[str, int]
    """By status."""
    health: dict[str, int]
    tasks: dict[str, int]
    """By status."""
    ready_tasks: int
    running_tasks: int
    oldest_ready: float | None
    completed_per_second: float
    """In the last minute."""


class DeviceStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a device did in the last hour."""

    device_id: str
    status: str
    health: str
    current_tasks: int
    ended: int
    errors: int
    error_rate: float | None
    mean_duration: float | None
    cpu_usage: float | None
    """Means of the hour."""
    memory_usage: float | None


class TaskStats(msgspec.Struct, frozen=True, kw_only=True):
    """How tasks did."""

    total: int
    by_status: dict[str, int]
    completed_last_minute: int
    completed_last_hour: int
    failed_last_hour: int
    failures: dict[str, int]
    """Attempts that did not succeed in the last hour, by the class of the error."""
