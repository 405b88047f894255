"""Amounts of the things that a node has and an execution needs."""

from typing import Final

import msgspec


class Resources(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, cache_hash=True
):
    """An amount of each resource; zero means none (as capacity) or no demand (as need)."""

    cpu_cores: float = 0.0
    memory_mb: float = 0.0
    gpu: float = 0.0
    bandwidth_mbps: float = 0.0
    slots: float = 0.0


NOTHING: Final = Resources()
RESOURCE_NAMES: Final = Resources.__struct_fields__


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measurements of a node: shares between 0 and 1, rates in bytes per second."""

    cpu_usage: float = 0.0
    memory_usage: float = 0.0
    gpu_usage: float | None = None
    network_io: float = 0.0
    disk_io: float = 0.0
    disk_usage: float | None = None
    """Used share of the disk with the node's data folder."""
    disk_free_mb: float | None = None
    """Free space on that disk."""
