"""Ties a process to its parent: when the parent dies, even by `kill -9`, the kernel kills it.

Also a program: `python -I -S leash.py PARENT_PID COMMAND…` ties itself and becomes COMMAND, so
that executors in any language are tied. It imports nothing of crawlfleet, to start quickly.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
EXIT_CANNOT_RUN: Final = 127


def tie(parent_pid: int) -> None:
    """Die with the parent; exits at once when it is gone already. No-op where there is no prctl."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(0)


def main(arguments: list[str]) -> None:
    parent_pid, *command = arguments
    tie(int(parent_pid))
    try:
        os.execvp(command[0], command)  # noqa: S606 (no shell is the point)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]!r}: {error.strerror}\n")
        sys.exit(EXIT_CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
