"""How a node did over time: measurements as they came, and means of older ones."""

from enum import StrEnum
from typing import Final

import msgspec


class Resolution(StrEnum):
    """How fine a history is: each heartbeat, or a mean for each minute or hour."""

    RAW = "raw"
    MINUTE = "minute"
    HOUR = "hour"


WIDTH_S: Final = {Resolution.RAW: 0.0, Resolution.MINUTE: 60.0, Resolution.HOUR: 3600.0}
"""How much time one sample stands for."""


class NodeSample(msgspec.Struct, frozen=True, kw_only=True):
    """What a node measured at an instant, or the mean from then on for the resolution's width."""

    node_id: str
    at: float
    resolution: Resolution = Resolution.RAW
    count: int = 1
    """How many heartbeats it is made of."""
    cpu_usage: float = 0.0
    memory_usage: float = 0.0
    gpu_usage: float | None = None
    network_io: float = 0.0
    disk_io: float = 0.0
    disk_usage: float | None = None
    load: float = 0.0
    active_tasks: float = 0.0
    ended: int = 0
    """Executions that ended on the node since the sample before."""
    errors: int = 0
    """Those of them that did not succeed."""
    latency_s: float | None = None
    """How long they took on average; `None` when none ended."""
    wait_s: float | None = None
    """How long they waited at the node before they began, on average."""
