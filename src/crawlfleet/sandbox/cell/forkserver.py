"""The nursery as the agent sees it: a process that is started once, and forks cells when told."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

HOST_MODULE: Final = "crawlfleet.worker.executor.main"
"""The host of the Python executors, by name: it is the nursery that imports it."""
EXECUTOR_MODULES: Final = ("crawlfleet.executors.python", "uvloop")
"""What it imports ahead of the work, where it is installed; never the work's own code."""
NURSERY: Final = "crawlfleet.sandbox.cell.forkserver_main"
KEPT_VARIABLES: Final = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""All of the agent's environment that reaches a cell: no tokens, no settings."""
WAIT_S: Final = 3.0


class Nest:
    """Starts the nursery when it is first needed, and again when it is gone."""

    def __init__(self, variables: Mapping[str, str], *, is_first: bool = False) -> None:
        """`is_first`: each cell is forked into a namespace of processes of its own. Only root may
        have that done for it."""
        self._first = "first" if is_first else "-"
        self._variables = {"PATH": os.defpath, "LANG": "C.UTF-8", **variables}
        self._nursery: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def open(self) -> socket.socket:
        """The way to the nursery; it need not be ready, what is sent waits."""
        if self._orders is None:
            self._bury()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._nursery = subprocess.Popen(  # noqa: S603 (our own program)
                    [sys.executable, "-m", NURSERY, self._first, HOST_MODULE, *EXECUTOR_MODULES],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env=self._variables,
                    start_new_session=True,
                )
            self._orders = ours
        return self._orders

    def fork(self, control: socket.socket, uid: int | None) -> tuple[int, ...]:
        """Have a process forked that obeys `control`, and is to become a user if one is named; our
        ends of its stdin, stdout, stderr."""
        whom = b"-" if uid is None else str(uid).encode()
        stdin, to_cell = os.pipe()
        from_out, stdout = os.pipe()
        from_err, stderr = os.pipe()
        try:
            fds = [control.fileno(), stdin, stdout, stderr]
            try:
                socket.send_fds(self.open(), [whom], fds)
            except (BrokenPipeError, ConnectionResetError):  # it was killed, by whoever
                self._hang_up()
                socket.send_fds(self.open(), [whom], fds)
        except BaseException:
            for fd in (to_cell, from_out, from_err):
                os.close(fd)
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        return to_cell, from_out, from_err

    async def close(self) -> None:
        """End the nursery; may be called twice."""
        self._hang_up()
        if self._nursery is not None:
            await asyncio.to_thread(self._see_off, self._nursery)
            self._nursery = None

    def _hang_up(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None

    def _bury(self) -> None:
        if self._nursery is not None:
            self._nursery.kill()
            self._nursery.wait()
            self._nursery = None

    def _see_off(self, nursery: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            nursery.wait(WAIT_S)
            return
        nursery.kill()
        nursery.wait()
