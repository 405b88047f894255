"""What can be set for the nodes of one cluster, and how its settings changed."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LogLevel = Literal["debug", "info", "warning", "error"]
Interval = Annotated[float, Meta(ge=0.1, le=3600)]
Timeout = Annotated[float, Meta(ge=1, le=86_400)]
Slots = Annotated[int, Meta(ge=0, le=100_000)]
StrategyName = Annotated[str, Meta(min_length=1, max_length=64)]


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for a cluster in place of the fleet's settings, where it is set."""

    default_strategy: StrategyName | None = None
    """How nodes are ranked for tasks that name no strategy."""
    heartbeat_interval_s: Interval | None = None
    """How often a node says that it is alive."""
    session_timeout_s: Timeout | None = None
    """A node that is silent for so long loses its session; more than twice the interval."""
    log_level: LogLevel | None = None
    """The least important lines that a node writes to its log."""
    max_slots: Slots | None = None
    """At most so many executions run at once on a node, however many it offers."""


class ClusterConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster from one change to the next; written once and kept."""

    id: str
    cluster_id: str
    number: int
    """1 for the first change; the cluster runs the highest."""
    settings: ClusterSettings
    created_at: float
    cause: str
    """Who changed what, in words."""
    version: int = 1


class NodeTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node is told to work by: the settings of its cluster, filled up by the fleet's."""

    version: int
    """Of the cluster's configuration; the node's next heartbeat says which one it runs."""
    heartbeat_interval_s: float
    session_timeout_s: float
    log_level: LogLevel | None = None
    """The node's own when not set."""
    max_slots: int | None = None
    """The node's own when not set."""


def configuration_id(cluster_id: str, number: int) -> str:
    """The id of a version of a cluster's configuration; ids of clusters have no slash."""
    return f"{cluster_id}/{number}"
