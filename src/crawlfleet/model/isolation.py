"""How far a process is kept apart from the machine that it runs on."""

from enum import StrEnum
from typing import Final

import msgspec


class Level(StrEnum):
    """A step of the ladder; a later one holds more. They compare in this order."""

    L0 = "L0"
    """Limits of the process, and somebody who watches it."""
    L1 = "L1"
    """Also rules about files and system calls: Landlock and seccomp."""
    L2 = "L2"
    """Also a world of its own: namespaces, with the rights of a plain user."""
    L3 = "L3"
    """Also limits on the whole tree of processes: control groups, version 1."""
    L4 = "L4"
    """The same by control groups of version 2."""

    @property
    def number(self) -> int:
        return int(self[1:])


DEMANDED: Final = msgspec.Meta(
    extra_json_schema={"enum": [*(str(each) for each in Level if each is not Level.L0), None]}
)
"""Of a field in which a level is demanded: the lowest is none, since every node meets it."""


class Layer(StrEnum):
    """One thing that holds a process; a machine offers each or does not."""

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
    """It runs as a user that owns nothing."""
    CGROUP_V1 = "cgroup_v1"
    CGROUP_V2 = "cgroup_v2"


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine offers."""

    level: Level = Level.L0
    layers: tuple[Layer, ...] = ()
    missing: dict[Layer, str] = {}
    """Why a layer cannot be had."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all processes of a cell may use together; `None` for no limit."""

    cpu_cores: float | None = None
    memory_mb: float | None = None
    pids: int | None = None
    disk_mb: float | None = None
    """In its scratch folder."""
    files: int | None = None
    """Open in one process."""


class Egress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whom a cell may talk to, through the agent. Private addresses are never among them unless
    the node allows them."""

    allow: tuple[str, ...] = ()
    """Domains, with all below them; when empty, every one that is not denied."""
    deny: tuple[str, ...] = ()
    """Domains, with all below them, and addresses."""
    closed_ports: tuple[int, ...] = ()
    """Of this machine, on whatever address of its own: a master may listen there."""
    allow_private: bool = False
    bandwidth_mbps: float | None = None
    """Both ways together, in megabits a second."""
    connections: int = 256
    """At once."""
