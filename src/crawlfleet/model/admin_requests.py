"""Projects, clusters, dead letters and settings: what may be asked for, and what is shown."""

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
    """A new project; sent again, it gives the same one."""

    id: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    name: str = ""
    """For people; the id when empty."""
    description: str = ""


class ProjectPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; the rest stays."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


class QuotaPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; `null` takes a limit away, the rest stays."""

    over: Over | UnsetType = UNSET
    """`queue`: what is more than the quotas allow waits; `reject`: it is refused."""
    waiting: Count | UnsetType | None = UNSET
    """Tasks that wait for a node or for their time."""
    running: Count | UnsetType | None = UNSET
    """Executions that hold a node's resources."""
    cpu_cores: Amount | UnsetType | None = UNSET
    """Reserved for all of them together."""
    memory_mb: Amount | UnsetType | None = UNSET
    """Reserved for all of them together."""
    pages_per_day: Count | UnsetType | None = UNSET
    """Pages that its tasks may fetch from midnight to midnight (UTC)."""
    storage_mb: Amount | UnsetType | None = UNSET
    """Output and bundles that are kept for it, in millions of bytes."""
    weight: Weight | UnsetType = UNSET
    """Its share beside other projects that have work: twice the weight is twice as much."""
    nodes: ReservedLabels | UnsetType | None = UNSET
    """Nodes that have all of these labels are kept for this project; none when `null` or empty."""


class ClusterSettingsRequest(
    ClusterSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What is to hold for the cluster in place of the fleet's settings."""


class ClusterSettingsPatch(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What is to be changed of a cluster's settings: `null` takes one back, the rest stays."""

    default_strategy: StrategyName | UnsetType | None = UNSET
    heartbeat_interval_s: Interval | UnsetType | None = UNSET
    session_timeout_s: Timeout | UnsetType | None = UNSET
    log_level: LogLevel | UnsetType | None = UNSET
    max_slots: Slots | UnsetType | None = UNSET


class ClusterRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new cluster; sent again, it gives the same one."""

    id: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    project_id: str = DEFAULT_PROJECT
    """Whose it is: only tasks of this project run on its nodes. Clusters of the project `default`
    are shared: tasks of all projects run there."""
    name: str = ""
    """For people; the id when empty."""
    description: str = ""
    configuration: ClusterSettingsRequest = ClusterSettingsRequest()
    """What holds for its nodes in place of the fleet's settings."""


class ClusterPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; the rest stays."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    status: ClusterStatus | UnsetType = UNSET
    configuration: ClusterSettingsPatch = ClusterSettingsPatch()
    """Makes a new version of the configuration, where something changes."""


class RollbackRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    """The settings of this version become those of a new one; 0 takes all of them back."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be."""

    severity: str
    """`critical`: work does not get done; `warning`: it may soon not; `notice`: good to know."""
    message: str
    remedy: str
    kind: str = ""
    """A stable word for programs, such as `no_node_online`."""
    values: dict[str, Said] = {}
    """What the message names, such as how many tasks are `ready`."""


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is, the worst first."""

    cluster_id: str
    status: str
    health: str
    """`healthy`, `degraded` or `unhealthy`, as the worst of `troubles` has it."""
    troubles: tuple[Trouble, ...]
    nodes: dict[str, int]
    """How many there are in each state."""
    node_health: dict[str, int]
    """How many nodes are how healthy."""
    capacity: Resources
    """Of the nodes that are online."""
    used: Resources
    free: Resources
    tasks: dict[str, int]
    """How many there are in each state that is not the end."""
    ready: int
    """Tasks that wait for a node."""
    oldest_ready_s: float | None
    """The age of the oldest of them; `null` when there is none."""
    configuration_version: int
    outdated_nodes: int
    """Connected nodes that do not yet say that they run this version."""


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as it holds now."""

    name: str
    value: Any
    origin: str
    default: Any
    description: str


class SettingPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SettingView]
    next_cursor: str | None


class DeadLetterSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are meant; all of them when nothing is named."""

    project_id: str | None = None
    cluster_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    status: TaskStatus | None = None
    error_class: ErrorClass | None = None
    reason: str | None = None
    """Has this text in its reason."""


class DeadLetterRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters by the `ids` of their tasks, or those of a `filter`: one of the two."""

    ids: Annotated[tuple[str, ...], msgspec.Meta(extra_json_schema={"maxItems": MAX_BATCH})] = ()
    """Up to 10,000 tasks, in place of a filter."""
    filter: DeadLetterSelection | None = None
    """Which dead letters are meant, in place of ids; all of them when it is empty."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)] = MAX_BATCH
    """How many of the filter's dead letters to go through in this request, oldest first."""
    cursor: str | None = None
    """The `next_cursor` of the request before, to go on where that ended."""
