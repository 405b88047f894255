"""Decisions about isolation: the level of a machine, the layers of a level, the need for a cell.

A machine reaches a level when all its layers work. Other layers that the machine has are used as
well, except those that distinguish the levels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crawlfleet.model.isolation import Egress, Isolation, Layer, Level, Limits
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings.sandbox import SandboxSettings

CAPABILITY: Final = "isolation"
"""The capability with the number of a node's level, and the lowest that a task accepts."""
LAYERS: Final = "isolation_layers"
"""The capability with the layers that a node uses."""
MISSING: Final = "isolation_missing"
"""The capability with the missing layers of a node and the reasons, for people."""
LABEL: Final = "isolation"
LONGEST_REASON: Final = 150

_LIMITS: Final = frozenset({Layer.RLIMITS, Layer.WATCHDOG})
_CALLS: Final = frozenset({Layer.NO_NEW_PRIVILEGES, Layer.SECCOMP})
_WORLD: Final = frozenset(
    {
        Layer.MOUNT_NAMESPACE,
        Layer.PID_NAMESPACE,
        Layer.NET_NAMESPACE,
        Layer.IPC_NAMESPACE,
        Layer.UTS_NAMESPACE,
    }
)
NEEDS: Final[Mapping[Level, frozenset[Layer]]] = {
    Level.L0: _LIMITS,
    Level.L1: _LIMITS | _CALLS | {Layer.LANDLOCK},
    # Mounts of its own do what Landlock does, so that an older kernel is good enough.
    Level.L2: _LIMITS | _CALLS | _WORLD,
    Level.L3: _LIMITS | _CALLS | _WORLD | {Layer.CGROUP_V1, Layer.OTHER_USER},
    Level.L4: _LIMITS | _CALLS | _WORLD | {Layer.CGROUP_V2},
}
_BEYOND: Final[Mapping[Level, frozenset[Layer]]] = {
    # At every level foreign code does not run as root and gains no rights.
    Level.L0: _CALLS | {Layer.OTHER_USER},
    Level.L1: frozenset({Layer.OTHER_USER}),
    **dict.fromkeys(
        (Level.L2, Level.L3, Level.L4),
        frozenset({Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE}),
    ),
}
"""The layers that a level uses in addition, if the machine has them."""


def level_of(layers: frozenset[Layer]) -> Level:
    """Return the highest level whose layers are all present."""
    return max((level for level, needs in NEEDS.items() if needs <= layers), default=Level.L0)


def at_level(level: Level, found: Isolation) -> tuple[Isolation, tuple[Layer, ...]]:
    """Return the isolation of a machine at a level, and the layers that it lacks for that level."""
    has = frozenset(found.layers)
    lacking = tuple(layer for layer in Layer if layer in NEEDS[level] - has)
    wanted = NEEDS[level] | _BEYOND[level]
    layers = tuple(layer for layer in Layer if layer in wanted & has)
    return Isolation(level=level, layers=layers, missing=found.missing), lacking


def choose(wanted: str, found: Isolation) -> tuple[Isolation, tuple[Layer, ...]]:
    """Return the isolation of a machine at a level, or with `auto` at its best one, and the layers
    that it lacks."""
    level = level_of(frozenset(found.layers)) if wanted == "auto" else Level(wanted)
    return at_level(level, found)


def with_demand(capabilities: dict[str, Any], level: Level | None) -> dict[str, Any]:
    """Return the demanded capabilities of a task with its lowest accepted level."""
    return capabilities if level is None else {**capabilities, CAPABILITY: level.number}


def offered(isolation: Isolation) -> dict[str, bool | float | str | list[str]]:
    """Return the capabilities by which a node states its isolation."""
    lacking = [f"{layer}: {why}" for layer, why in isolation.missing.items()]
    return {
        CAPABILITY: float(isolation.level.number),
        LAYERS: [str(layer) for layer in isolation.layers],
        **({MISSING: [each[:LONGEST_REASON] for each in lacking]} if lacking else {}),
    }


def demanded(capabilities: Mapping[str, Any]) -> Level | None:
    """Return the lowest level that a task accepts; `None` without a demand."""
    number = capabilities.get(CAPABILITY)
    if not isinstance(number, int | float) or number <= 0:
        return None
    return next((level for level in Level if level.number >= number), Level.L4)


def needs_cell(
    task_type: str,
    demand: Level | None,
    settings: SandboxSettings,
    *,
    has_bundle: bool = False,
) -> bool:
    """Return whether an execution runs in a cell: its task demands it, or it runs foreign code.

    A bundle is foreign code, whatever the task type and the settings.
    """
    if demand is not None or has_bundle:
        return True
    return settings.level != "off" and task_type in settings.task_types


def limits_of(allocation: Resources, settings: SandboxSettings) -> Limits:
    """Return the limits of an execution: its allocation, and the node's own limits."""
    return Limits(
        cpu_cores=allocation.cpu_cores or None,
        memory_mb=allocation.memory_mb or settings.memory_mb,
        pids=settings.processes,
        disk_mb=settings.disk_mb,
        files=settings.files,
    )


def egress_of(
    allocation: Resources,
    settings: SandboxSettings,
    *,
    allow_private: bool,
    closed: Sequence[str] = (),
    closed_ports: Sequence[int] = (),
    connections: int | None = None,
) -> Egress | None:
    """Return the network rules of an execution; `None` when it has no network.

    Hosts in `closed` and the ports in `closed_ports` of this machine are refused. `connections`
    replaces the limit of the settings.
    """
    if settings.network == "none":
        return None
    return Egress(
        allow=settings.allow_domains,
        deny=(*settings.deny_domains, *closed),
        closed_ports=tuple(closed_ports),
        allow_private=allow_private,
        bandwidth_mbps=allocation.bandwidth_mbps or settings.bandwidth_mbps or None,
        connections=settings.connections if connections is None else connections,
    )
