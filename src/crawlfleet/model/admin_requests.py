"""Requests and answers about projects, clusters, dead letters and settings."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.model.project import (
    DEFAULT_PROJECT,
    ClusterSettings,
    ClusterStatus,
    Interval,
    LogLevel,
    Slots,
    StrategyName,
    Timeout,
)
from crawlfleet.model.quota import Amount, Count, Over, Weight
from crawlfleet.model.requests import MAX_BATCH
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import ErrorClass, TaskStatus
from crawlfleet.model.translatable import Said

ReservedLabels = Annotated[dict[str, str], Meta(max_length=16)]


class ProjectRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project to create; the same request again returns the same project."""

    id: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    name: str = ""
    """Display name; the id when empty."""
    description: str = ""


class ProjectPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a project; a field that is left out stays as it is."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


class QuotaPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a project's quotas: `null` removes a limit, a field that is left out stays as it
    is."""

    over: Over | UnsetType = UNSET
    """`queue`: tasks beyond the quotas wait; `reject`: they are refused."""
    waiting: Count | UnsetType | None = UNSET
    """Maximum number of tasks that wait for a node or for their time."""
    running: Count | UnsetType | None = UNSET
    """Maximum number of executions that hold a node's resources."""
    cpu_cores: Amount | UnsetType | None = UNSET
    """Maximum CPU cores that are reserved for all executions together."""
    memory_mb: Amount | UnsetType | None = UNSET
    """Maximum memory that is reserved for all executions together."""
    pages_per_day: Count | UnsetType | None = UNSET
    """Maximum number of pages that the project's tasks may fetch from midnight to midnight
    (UTC)."""
    storage_mb: Amount | UnsetType | None = UNSET
    """Maximum size of the project's stored output and bundles, in millions of bytes."""
    weight: Weight | UnsetType = UNSET
    """Share of the fleet relative to other projects that have work: twice the weight, twice the
    share."""
    nodes: ReservedLabels | UnsetType | None = UNSET
    """Labels of nodes that are reserved for this project (all must match); none when `null` or
    empty."""


class ClusterSettingsRequest(
    ClusterSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Settings of a cluster that replace those of the fleet."""


class ClusterSettingsPatch(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Changes to a cluster's settings: `null` unsets a setting, one that is left out stays as it
    is."""

    default_strategy: StrategyName | UnsetType | None = UNSET
    heartbeat_interval_s: Interval | UnsetType | None = UNSET
    session_timeout_s: Timeout | UnsetType | None = UNSET
    log_level: LogLevel | UnsetType | None = UNSET
    max_slots: Slots | UnsetType | None = UNSET


class ClusterRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster to create; the same request again returns the same cluster."""

    id: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    project_id: str = DEFAULT_PROJECT
    """Project that owns the cluster: only its tasks run on the cluster's nodes. A cluster of the
    project `default` is shared by all projects."""
    name: str = ""
    """Display name; the id when empty."""
    description: str = ""
    configuration: ClusterSettingsRequest = ClusterSettingsRequest()
    """Settings of the cluster that replace those of the fleet."""


class ClusterPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a cluster; a field that is left out stays as it is."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    status: ClusterStatus | UnsetType = UNSET
    configuration: ClusterSettingsPatch = ClusterSettingsPatch()
    """Changes to the settings; if anything differs, they make a new version of the
    configuration."""


class RollbackRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    """Version of the configuration to return to, as a new version; 0 unsets all settings."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with its remedy."""

    severity: str
    """`critical`: work does not get done; `warning`: work may soon not get done; `notice`: for your
    information."""
    message: str
    remedy: str
    kind: str = ""
    """Stable code for programs, such as `no_node_online`."""
    values: dict[str, Said] = {}
    """Values in the message, such as the number of `ready` tasks."""


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a cluster, with its problems, the worst first."""

    cluster_id: str
    status: str
    health: str
    """`healthy`, `degraded` or `unhealthy`, according to the worst of `troubles`."""
    troubles: tuple[Trouble, ...]
    nodes: dict[str, int]
    """Number of nodes in each state."""
    node_health: dict[str, int]
    """Number of nodes with each health."""
    capacity: Resources
    """Capacity of the nodes that are online."""
    used: Resources
    free: Resources
    tasks: dict[str, int]
    """Number of tasks in each state that is not terminal."""
    ready: int
    """Number of tasks that wait for a node."""
    oldest_ready_s: float | None
    """Age in seconds of the task that has been ready for longest; `null` when no task is ready."""
    configuration_version: int
    outdated_nodes: int
    """Number of connected nodes that do not report this version of the configuration yet."""


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """The effective value of one setting."""

    name: str
    value: Any
    origin: str
    default: Any
    description: str


class SettingPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SettingView]
    next_cursor: str | None


class DeadLetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter for dead letters; all of them when no field is set."""

    project_id: str | None = None
    cluster_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    status: TaskStatus | None = None
    error_class: ErrorClass | None = None
    reason: str | None = None
    """Text that the reason contains."""


class DeadLetterRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters by the `ids` of their tasks or by a `filter`; exactly one of them."""

    ids: Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"maxItems": MAX_BATCH})] = ()
    """Ids of up to 10,000 tasks, instead of a filter."""
    filter: DeadLetterSelection | None = None
    """Filter instead of ids; an empty one selects all dead letters."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = MAX_BATCH
    """Maximum number of matching dead letters to process in this request, oldest first."""
    cursor: str | None = None
    """The `next_cursor` of the previous request, to continue where it ended."""
