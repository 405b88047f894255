"""Whose something is that cells leave on a machine: told by its name.

A name has the key of the node, by which its next life finds again what is its own, and the process
that made it. So what a dead worker left can be found although its data folder is gone, and with it
the key.
"""

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_PROGRAM: Final = "crawlfleet"
_PARTS: Final = 4
_STATE, _START = 0, 19
"""In the line of a process, after its name."""


class Owner(NamedTuple):
    """A process. Its number means something in its namespace only, and only as long as it lives:
    numbers are used again."""

    namespace: int
    pid: int
    started: int
    """In ticks since the machine was."""

    def __str__(self) -> str:
        return "-".join(map(str, self))


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


def is_orphan(name: str, proc: Path = PROC) -> bool:
    """Whether who made what is called so is dead for certain. Nobody can tell of a process in
    another namespace, nor of a name that does not say."""
    owner = _read(name)
    here = this_process(proc)
    if owner is None or here is None or owner.namespace != here.namespace:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # somebody else's: it lives
    state, started = _look(proc / str(owner.pid))
    return state in {"Z", "X"} or (started is not None and started != owner.started)


def this_process(proc: Path = PROC) -> Owner | None:
    """The one that asks; `None` where what is mounted there shows other processes than its own."""
    with contextlib.suppress(OSError, ValueError):
        if int((proc / "self").readlink().name) == os.getpid():
            _, started = _look(proc / "self")
            if started is not None:
                return Owner((proc / "self" / "ns" / "pid").stat().st_ino, os.getpid(), started)
    return None


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
            return Owner(*map(int, parts[2].split("-")))
    return None
