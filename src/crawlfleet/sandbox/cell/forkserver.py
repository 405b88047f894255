"""The client of the fork server: a process that the agent starts once, and that forks cells."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

HOST_MODULE: Final = "crawlfleet.worker.executor.main"
"""The loop of the Python executors, by name: only the fork server imports it."""
EXECUTOR_MODULES: Final = ("crawlfleet.executors.python", "uvloop")
"""Modules that the fork server imports where they are installed; never code of the work."""
SERVER_MODULE: Final = "crawlfleet.sandbox.cell.forkserver_main"
KEPT_VARIABLES: Final = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""The only variables of the agent that reach a cell: no tokens, no settings."""
WAIT_S: Final = 3.0


class ForkServer:
    """Starts the fork server when it is first needed, and again after it has died."""

    def __init__(self, variables: Mapping[str, str], *, is_pid_one: bool = False) -> None:
        """Start no process yet. When `is_pid_one`, each cell is forked into a new PID namespace;
        only root can do that."""
        self._pid_one = "pid-one" if is_pid_one else "-"
        self._variables = {"PATH": os.defpath, "LANG": "C.UTF-8", **variables}
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def open(self) -> socket.socket:
        """Return the socket to the fork server; what is sent before it is ready waits there."""
        if self._orders is None:
            self._kill()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            modules = (HOST_MODULE, *EXECUTOR_MODULES)
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 (our own program)
                    [sys.executable, "-m", SERVER_MODULE, self._pid_one, *modules],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env=self._variables,
                    start_new_session=True,
                )
            self._orders = ours
        return self._orders

    def fork(self, control: socket.socket, uid: int | None) -> tuple[int, ...]:
        """Fork a process that takes its specification from `control` and becomes the user `uid`.

        Returns the agent's ends of its stdin, stdout and stderr.
        """
        user = b"-" if uid is None else str(uid).encode()
        stdin, to_cell = os.pipe()
        from_out, stdout = os.pipe()
        from_err, stderr = os.pipe()
        try:
            fds = [control.fileno(), stdin, stdout, stderr]
            try:
                socket.send_fds(self.open(), [user], fds)
            except (BrokenPipeError, ConnectionResetError):  # the fork server was killed
                self._disconnect()
                socket.send_fds(self.open(), [user], fds)
        except BaseException:
            for fd in (to_cell, from_out, from_err):
                os.close(fd)
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        return to_cell, from_out, from_err

    async def close(self) -> None:
        """End the fork server; may be called twice."""
        self._disconnect()
        if self._process is not None:
            await asyncio.to_thread(self._wait_or_kill, self._process)
            self._process = None

    def _disconnect(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_or_kill(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(WAIT_S)
            return
        process.kill()
        process.wait()
