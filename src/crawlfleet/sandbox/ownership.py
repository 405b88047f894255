"""Whose something is that cells leave on a machine: told by its name.

A name has the key of the node, by which its next life finds again what is its own, and the process
that made it. So what a dead worker left can be found although its data folder is gone, and with it
the key; and what a living one uses is left alone, although a copy of that folder has the same key.
"""

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from crawlfleet.telemetry import Component, logger

PROC: Final = Path("/proc")
_PROGRAM: Final = "crawlfleet"
_PARTS: Final = 4
_STATE, _START = 0, 19
"""In the line of a process, after its name."""
_BOOT: Final = "sys/kernel/random/boot_id"
_BOOT_DIGITS: Final = 12
log = logger(Component.WORKER)


class Owner(NamedTuple):
    """A process. Its number means something in its namespace only, and only as long as it lives:
    numbers are used again."""

    boot: int
    """Of the kernel: file systems are shared, and the first namespaces of all kernels have the same
    numbers."""
    namespace: int
    clock: int
    """The namespace of its clock; 0 where there are none."""
    pid: int
    started: int
    """In ticks since the machine was, by that clock."""

    def __str__(self) -> str:
        return "-".join((f"{self.boot:x}", *map(str, self[1:])))


def prefix_of(key: str) -> str:
    """How the names of all begin that a node has made."""
    return f"{_PROGRAM}.{key}."


def name_of(key: str, id: str, proc: Path = PROC) -> str:
    """The name of something that this process makes for a cell."""
    owner = this_process(proc)
    return f"{prefix_of(key)}{owner}.{id}" if owner is not None else f"{prefix_of(key)}{id}"


def is_ours(name: str) -> bool:
    """Whether a name is one that this program gives."""
    return name.startswith(f"{_PROGRAM}.")


def was_left(name: str, key: str, proc: Path = PROC) -> bool:
    """Whether nobody can need what is called so: an earlier life of the node with this key made it,
    or somebody who is dead for certain."""
    if not name.startswith(prefix_of(key)):
        return is_orphan(name, proc)
    owner = _read(name)
    if owner is None or owner.pid == os.getpid() or _lives(owner, proc) is not True:
        return True
    _warn(key, owner.pid)
    return False


def is_orphan(name: str, proc: Path = PROC) -> bool:
    """Whether who made what is called so is dead for certain. Nobody can tell of a process in
    another namespace or of another kernel, nor of a name that does not say."""
    owner = _read(name)
    return owner is not None and _lives(owner, proc) is False


def this_process(proc: Path = PROC) -> Owner | None:
    """The one that asks; `None` where what is mounted there shows other processes than its own."""
    return _look_at_self(proc, os.getpid())


def _lives(owner: Owner, proc: Path) -> bool | None:
    """`None` when nobody can tell."""
    here = this_process(proc)
    if here is None or owner[:3] != here[:3]:
        return None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's: it lives
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
    """Once is enough."""
    log.warning(
        "another worker has the same key: its cells are left alone",
        key=key,
        pid=pid,
        remedy="give each worker a data folder of its own, and copy none of a sandbox",
    )


def _look(process: Path) -> tuple[str, int | None]:
    """The state of a process, and when it was started; not known where it cannot be read."""
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
