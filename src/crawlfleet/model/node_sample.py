"""History of nodes: samples of heartbeats, and means of older ones."""

from enum import StrEnum
from typing import Final

import msgspec


class Resolution(StrEnum):
    """The resolution of a history: each heartbeat, or a mean for each minute or hour."""

    RAW = "raw"
    MINUTE = "minute"
    HOUR = "hour"


WIDTH_S: Final = {Resolution.RAW: 0.0, Resolution.MINUTE: 60.0, Resolution.HOUR: 3600.0}
"""Seconds that one sample stands for."""


class NodeSample(msgspec.Struct, frozen=True, kw_only=True):
    """A node's measurements at an instant, or their means over the resolution's width from it
    on."""

    node_id: str
    at: float
    resolution: Resolution = Resolution.RAW
    count: int = 1
    """Number of heartbeats in the sample."""
    cpu_usage: float = 0.0
    memory_usage: float = 0.0
    gpu_usage: float | None = None
    network_io: float = 0.0
    disk_io: float = 0.0
    disk_usage: float | None = None
    load: float = 0.0
    active_tasks: float = 0.0
    ended: int = 0
    """Number of executions that ended on the node since the previous sample."""
    errors: int = 0
    """Number of those executions that did not succeed."""
    latency_s: float | None = None
    """Mean duration of the executions; `None` when none ended."""
    wait_s: float | None = None
    """Mean time that executions waited at the node before they started."""
