"""The owner of control groups and folders of cells, which their names state.

A name has the key of the node, by which the next run of the worker finds what it made, and the
process that made it. So a worker can remove what a dead worker left, even when the data folder with
its key is gone; and it leaves alone what a living worker uses, even when a copy of that folder has
the same key.
"""

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from crawlfleet.telemetry import Component, logger

PROC: Final = Path("/proc")
_PREFIX: Final = "crawlfleet"
_PARTS: Final = 4
_STATE, _START = 0, 19
"""Fields of `/proc/PID/stat` after the name of the process."""
_BOOT: Final = "sys/kernel/random/boot_id"
_BOOT_DIGITS: Final = 12
log = logger(Component.WORKER)


class Owner(NamedTuple):
    """The process that made something. A process id is valid in its namespace only, and only while
    the process lives: the kernel uses ids again."""

    boot: int
    """The boot id of the kernel: several kernels can share a file system, and the first namespaces
    of all kernels have the same numbers."""
    namespace: int
    clock: int
    """The time namespace; 0 on kernels without one."""
    pid: int
    started: int
    """The start time, in clock ticks of that time namespace since boot."""

    def __str__(self) -> str:
        return "-".join((f"{self.boot:x}", *map(str, self[1:])))


def prefix_of(key: str) -> str:
    """Return the prefix of all names that a node gives."""
    return f"{_PREFIX}.{key}."


def name_of(key: str, id: str, proc: Path = PROC) -> str:
    """Return a name for something that this process makes for a cell."""
    owner = this_process(proc)
    return f"{prefix_of(key)}{owner}.{id}" if owner is not None else f"{prefix_of(key)}{id}"


def is_ours(name: str) -> bool:
    """Return whether crawlfleet gave this name."""
    return name.startswith(f"{_PREFIX}.")


def was_left(name: str, key: str, proc: Path = PROC) -> bool:
    """Return whether the thing with this name is a leftover: an earlier run of the node with this
    key made it, or a process that is certainly dead."""
    if not name.startswith(prefix_of(key)):
        return is_orphan(name, proc)
    owner = _read(name)
    if owner is None or owner.pid == os.getpid() or _lives(owner, proc) is not True:
        return True
    _warn(key, owner.pid)
    return False


def is_orphan(name: str, proc: Path = PROC) -> bool:
    """Return whether the process that gave this name is certainly dead: `False` for a process of
    another namespace or kernel, and for a name without a process."""
    owner = _read(name)
    return owner is not None and _lives(owner, proc) is False


def this_process(proc: Path = PROC) -> Owner | None:
    """Return the calling process; `None` when `proc` belongs to another PID namespace."""
    return _look_at_self(proc, os.getpid())


def _lives(owner: Owner, proc: Path) -> bool | None:
    """Return whether a process lives; `None` when this process cannot know."""
    here = this_process(proc)
    if here is None or owner[:3] != here[:3]:
        return None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to another user, so it lives
    state, started = _look(proc / str(owner.pid))
    return not (state in {"Z", "X"} or (started is not None and started != owner.started))


@cache
def _look_at_self(proc: Path, pid: int) -> Owner | None:
    with contextlib.suppress(OSError, ValueError):
        if int((proc / "self").readlink().name) == pid:
            _, started = _look(proc / "self")
            boot = (proc / _BOOT).read_text().replace("-", "")[:_BOOT_DIGITS]
            spaces = proc / "self" / "ns"
            clock = 0
            with contextlib.suppress(OSError):
                clock = (spaces / "time").stat().st_ino
            if started is not None:
                return Owner(int(boot, 16), (spaces / "pid").stat().st_ino, clock, pid, started)
    return None


@cache
def _warn(key: str, pid: int) -> None:
    """Log a copied key once."""
    log.warning(
        "another worker has the same key: its cells are left alone",
        key=key,
        pid=pid,
        remedy="give each worker a data folder of its own, and copy none of a sandbox",
    )


def _look(process: Path) -> tuple[str, int | None]:
    """Return the state and the start time of a process; empty values when it cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name may hold anything, parentheses too; the rest follows the last one.
        after = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return after[_STATE], int(after[_START])
    return "", None


def _read(name: str) -> Owner | None:
    parts = name.split(".")
    if len(parts) == _PARTS and is_ours(name):
        with contextlib.suppress(ValueError, TypeError):
            boot, *others = parts[2].split("-")
            return Owner(int(boot, 16), *map(int, others))
    return None
