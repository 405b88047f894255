"""Isolation of foreign code: levels, layers, limits and network rules of a cell."""

from enum import StrEnum
from typing import Final

import msgspec


class Level(StrEnum):
    """An isolation level. Levels compare in their order, and a higher one isolates better."""

    L0 = "L0"
    """Limits of each process, and a watchdog."""
    L1 = "L1"
    """L0 plus rules for files and system calls: Landlock and seccomp."""
    L2 = "L2"
    """L1 plus namespaces, with the rights of a plain user."""
    L3 = "L3"
    """L2 plus limits for all processes together, by control groups version 1."""
    L4 = "L4"
    """L2 plus limits for all processes together, by control groups version 2."""

    @property
    def number(self) -> int:
        return int(self[1:])


DEMANDED: Final = msgspec.Meta(
    extra_json_schema={"enum": [*(str(each) for each in Level if each is not Level.L0), None]}
)
"""The schema of a field that demands a level: L0 is none, because every node meets it."""


class Layer(StrEnum):
    """A mechanism that isolates a process. A machine offers it or does not."""

    RLIMITS = "rlimits"
    WATCHDOG = "watchdog"
    NO_NEW_PRIVILEGES = "no_new_privs"
    SECCOMP = "seccomp"
    LANDLOCK = "landlock"
    USER_NAMESPACE = "user"
    MOUNT_NAMESPACE = "mount"
    PID_NAMESPACE = "pid"
    NET_NAMESPACE = "net"
    IPC_NAMESPACE = "ipc"
    UTS_NAMESPACE = "uts"
    OTHER_USER = "uid"
    """The cell runs as a user that owns nothing."""
    CGROUP_V1 = "cgroup_v1"
    CGROUP_V2 = "cgroup_v2"


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """The isolation that a machine offers."""

    level: Level = Level.L0
    layers: tuple[Layer, ...] = ()
    missing: dict[Layer, str] = {}
    """The reason why each other layer is missing."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of all processes of a cell together; `None` is no limit."""

    cpu_cores: float | None = None
    memory_mb: float | None = None
    pids: int | None = None
    disk_mb: float | None = None
    """The size of the scratch folder."""
    files: int | None = None
    """Open files of one process."""


class Egress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The network rules of a cell. Private addresses are refused unless the node allows them."""

    allow: tuple[str, ...] = ()
    """The only allowed domains, including subdomains; when empty, all that are not denied."""
    deny: tuple[str, ...] = ()
    """Denied domains, including subdomains, and addresses."""
    closed_ports: tuple[int, ...] = ()
    """Closed ports on all addresses of this machine: a master may listen there."""
    allow_private: bool = False
    bandwidth_mbps: float | None = None
    """The bandwidth of both directions together, in megabits per second."""
    connections: int = 256
    """The most connections at once."""
