"""Which level of isolation a machine reaches, what a level consists of, and who needs a cell.

A level is reached when all its layers were seen to work. Layers beyond those that a level needs
are put on as well where the machine has them, but for those that tell the levels apart.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crawlfleet.model.isolation import Egress, Isolation, Layer, Level, Limits
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings.sandbox import SandboxSettings

CAPABILITY: Final = "isolation"
"""Under which a node tells the number of its level, and a task the lowest that it accepts."""
LAYERS: Final = "isolation_layers"
"""Under which a node lists what it holds foreign code with."""
MISSING: Final = "isolation_missing"
"""Under which it lists what it lacks, each with the reason; for people alone."""
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
    # Whatever the level, nothing foreign runs as root, or gains rights.
    Level.L0: _CALLS | {Layer.OTHER_USER},
    Level.L1: frozenset({Layer.OTHER_USER}),
    **dict.fromkeys(
        (Level.L2, Level.L3, Level.L4),
        frozenset({Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE}),
    ),
}
"""What a level takes besides, where it can be had."""


def level_of(layers: frozenset[Layer]) -> Level:
    """The highest level whose layers are all there."""
    return max((level for level, needs in NEEDS.items() if needs <= layers), default=Level.L0)


def at_level(level: Level, found: Isolation) -> tuple[Isolation, tuple[Layer, ...]]:
    """What a machine offers when it is held to a level; and the layers that it lacks for it."""
    has = frozenset(found.layers)
    lacking = tuple(layer for layer in Layer if layer in NEEDS[level] - has)
    wanted = NEEDS[level] | _BEYOND[level]
    layers = tuple(layer for layer in Layer if layer in wanted & has)
    return Isolation(level=level, layers=layers, missing=found.missing), lacking


def choose(wanted: str, found: Isolation) -> tuple[Isolation, tuple[Layer, ...]]:
    """What a machine offers when it is held to a level, or with `auto` at its best one; and the
    layers that it lacks for that."""
    level = level_of(frozenset(found.layers)) if wanted == "auto" else Level(wanted)
    return at_level(level, found)


def with_demand(capabilities: dict[str, Any], level: Level | None) -> dict[str, Any]:
    """What a task asks of nodes, with the lowest level that it accepts."""
    return capabilities if level is None else {**capabilities, CAPABILITY: level.number}


def offered(isolation: Isolation) -> dict[str, bool | float | str | list[str]]:
    """What a node says of itself, for placement and for people."""
    lacking = [f"{layer}: {why}" for layer, why in isolation.missing.items()]
    return {
        CAPABILITY: float(isolation.level.number),
        LAYERS: [str(layer) for layer in isolation.layers],
        **({MISSING: [each[:LONGEST_REASON] for each in lacking]} if lacking else {}),
    }


def demanded(capabilities: Mapping[str, Any]) -> Level | None:
    """The lowest level that a task accepts; `None` when it does not say."""
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
    """Whether an execution is kept apart: its task demands it, or it runs foreign code. A bundle is
    foreign code, whatever the task type and the settings."""
    if demand is not None or has_bundle:
        return True
    return settings.level != "off" and task_type in settings.task_types


def limits_of(allocation: Resources, settings: SandboxSettings) -> Limits:
    """What an execution may use: what it was allocated, and the node's own bounds."""
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
    """Whom an execution may talk to: nobody of `closed`, and none of these ports here; by so many
    `connections` at once, or as many as the settings say."""
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
