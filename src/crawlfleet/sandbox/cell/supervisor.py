"""The supervisor of a cell: waits for the end of the work, and lets no process outlive it.

With a PID namespace the supervisor is PID 1, and the kernel ends all other processes with it.
Without one it adopts every orphan of the work and kills them. It also counts memory and disk where
no control group or file system does.
"""

import contextlib
import os
import select
import signal
import socket
from pathlib import Path
from typing import Final

from crawlfleet.model.isolation import Layer
from crawlfleet.sandbox.removal import open_up
from crawlfleet.sandbox.spec import CellSpec, CellStatus, encode

CHECK_INTERVAL_S: Final = 0.25
MIN_FILE_BYTES: Final = 4096


class Supervisor:
    """Supervises the process `work`; the agent is at the other end of the socket `agent`."""

    def __init__(self, agent: socket.socket, work: int, spec: CellSpec, *, held: int) -> None:
        """`held` is the size of the measured folders before the work began."""
        self._agent = agent
        self._work = work
        self._spec = spec
        self._held = held
        self._code: int | None = None
        self._reason = ""
        self._is_first = Layer.PID_NAMESPACE in spec.layers
        grouped = bool(spec.groups)
        self._counts_memory = not grouped and spec.memory_bytes is not None
        self._measures_disk = bool(spec.measured) and spec.disk_bytes is not None

    def watch(self) -> None:
        """Wait until the work ends or the agent closes its end, then kill every other process of
        the cell and report the exit code."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        poll.register(self._agent, select.POLLIN)
        check_ms = CHECK_INTERVAL_S * 1000 if self._counts_memory or self._measures_disk else None
        pause = None if self._spec.waits else check_ms
        while True:
            self._reap()
            if self._code is not None:
                break
            ready = {fd for fd, _ in poll.poll(pause)}
            if self._agent.fileno() in ready:
                if not self._agent.recv(64):
                    break
                pause = check_ms  # the work begins
            if woken in ready:
                os.read(woken, 4096)
            if reason := self._excess():
                self._reason = reason
                break
        self._end_all()
        with contextlib.suppress(OSError):
            code = -signal.SIGKILL if self._code is None else self._code
            self._agent.send(encode(CellStatus(ended=code, reason=self._reason)))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._work:
                    self._code = os.waitstatus_to_exitcode(status)

    def _excess(self) -> str:
        if self._counts_memory:
            used = sum(_resident(pid) for pid in _descendants())
            if used > (self._spec.memory_bytes or used):
                return f"used {used >> 20:,} MB of memory, over its limit"
        if self._measures_disk:
            used = size_of_all(self._spec) - self._held
            if used > (self._spec.disk_bytes or used):
                return f"wrote {used >> 20:,} MB of files, over its limit"
        return ""

    def _end_all(self) -> None:
        """Kill all processes of the work. They are stopped first, so that none forks meanwhile."""
        if self._is_first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            stopped: set[int] = set()
            while fresh := set(_descendants()) - stopped:
                for pid in fresh:
                    _signal(pid, signal.SIGSTOP)
                stopped |= fresh
        while True:
            if not self._is_first:
                for pid in _descendants():
                    _signal(pid, signal.SIGKILL)
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if pid == self._work and self._code is None:
                self._code = os.waitstatus_to_exitcode(status)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _descendants() -> list[int]:
    """Return the ids of all descendants of this process."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if (entry := path.name).isdecimal():
            with contextlib.suppress(OSError, ValueError):
                # The name may hold anything, parentheses too; the parent follows the last one.
                after = (path / "stat").read_text(errors="replace").rpartition(")")[2]
                state, parent = after.split()[:2]
                if state not in "ZX":
                    parents.setdefault(int(parent), []).append(int(entry))
    found, ahead = [], [os.getpid()]
    while ahead:
        children = parents.get(ahead.pop(), [])
        found += children
        ahead += children
    return found


def _resident(pid: int) -> int:
    """Return the bytes of memory of a process, without pages that are backed by files."""
    used = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc", str(pid), "status").read_text(errors="replace").splitlines():
            if line.startswith(("RssAnon:", "RssShmem:")):
                used += int(line.split()[1]) * 1024
    return used


def size_of_all(spec: CellSpec) -> int:
    """Return the bytes in the measured folders of a cell; 0 when it has no disk limit."""
    return sum(map(_size_of, spec.measured)) if spec.disk_bytes is not None else 0


def _size_of(folder: str) -> int:
    size = 0
    for parent, folders, names in os.walk(folder):
        for name in folders:
            _make_readable(Path(parent, name))
        for name in names:
            with contextlib.suppress(OSError):
                # Empty files take space too.
                size += max(Path(parent, name).lstat().st_blocks * 512, MIN_FILE_BYTES)
    return size


def _make_readable(folder: Path) -> None:
    """Open up a folder that can be entered but not listed: files could be hidden in it."""
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid == os.getuid() and not os.access(folder, os.R_OK | os.X_OK):
            os.close(open_up(folder))
