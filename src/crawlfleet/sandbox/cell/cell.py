"""The agent's side of a cell: its pipes, its control socket, and its end.

The agent's end of the control socket is the lifeline: when it closes, the cell ends.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec

from crawlfleet.errors import SandboxFailed
from crawlfleet.sandbox.kernel.cgroups import Cgroup
from crawlfleet.sandbox.network.proxy import EgressProxy
from crawlfleet.sandbox.spec import CellStatus, decode_status

STATUS_BYTES: Final = 1 << 14
MAX_FDS: Final = 8
BEGIN_WAIT_S: Final = 20.0
CLEAR_WAIT_S: Final = 5.0
CHECK_INTERVAL_S: Final = 0.002

Cleanup = Callable[[], Awaitable[None]]
"""Removes something that a cell left, after all its processes have ended."""


class _ReadPipe(asyncio.Protocol):
    """Passes the output of one pipe of the cell to its listener."""

    def __init__(self, listener: asyncio.SubprocessProtocol, fd: int) -> None:
        self._listener, self._fd = listener, fd

    def data_received(self, data: bytes) -> None:
        self._listener.pipe_data_received(self._fd, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.pipe_connection_lost(self._fd, error)


class _WritePipe(asyncio.BaseProtocol):
    """Passes the state of the cell's stdin to its listener."""

    def __init__(self, listener: asyncio.SubprocessProtocol) -> None:
        self._listener = listener

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.pipe_connection_lost(0, error)


class LocalCell:
    """A `Cell` on this machine; it is usable after `begin`."""

    def __init__(self, control: socket.socket, *, has_namespace: bool) -> None:
        self._control = control
        self._has_namespace = has_namespace
        self._begun: asyncio.Future[CellStatus] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()
        self._pid = 0
        self._pidfd: int | None = None
        self._code: int | None = None
        self._reason = ""
        self._pipes: dict[int, Any] = {}
        self._listener: asyncio.SubprocessProtocol | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._is_killed = False
        self.uid: int | None = None
        """The user that the cell runs as; `None` keeps the user of the agent."""
        self.pipes: tuple[int, ...] = ()
        """The agent's ends of the cell's stdin, stdout and stderr, until `connect`."""
        self.proxy_socket: socket.socket | None = None
        """The listening socket of the cell's proxy. `clear` closes it, also before anything
        listens."""
        self.group: Cgroup | None = None
        """The cell's control group; `None` without one."""
        self.has_left_group = False
        """The control group outlived `clear`: a process in it cannot end yet."""
        self.proxy: EgressProxy | None = None
        """The proxy by which the cell reaches the network; `None` without network."""
        self.shares_folders = False
        """The cell writes to folders that other cells see."""
        self.is_made_ahead = False
        self.cleanups: list[Cleanup] = []
        """Called by `clear` when all processes have ended, the last one first."""
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control.fileno(), self._receive)

    async def begin(self) -> None:
        """Wait until the work has begun, or waits. Raises `SandboxFailed`."""
        try:
            async with asyncio.timeout(BEGIN_WAIT_S):
                status = await self._begun
        except TimeoutError:
            raise SandboxFailed(
                f"the cell was not ready within {BEGIN_WAIT_S:g} s; is the machine overloaded?"
            ) from None
        if status.failed:
            raise SandboxFailed(f"the cell cannot be made: {status.failed}")
        self._pid = status.begun

    @property
    def is_over(self) -> bool:
        """True once the cell has ended or was killed."""
        return self._gone.is_set()

    def send(self, message: bytes) -> None:
        """Send its specification, or `GO`, to the process of the cell. Raises `OSError`."""
        self._control.send(message)

    async def connect(self, listener: asyncio.SubprocessProtocol) -> None:
        """Connect the pipes of the cell to a listener."""
        loop = asyncio.get_running_loop()
        listener.connection_made(cast("asyncio.BaseTransport", self))
        pipes, self.pipes = self.pipes, ()
        stdin, stdout, stderr = (
            os.fdopen(fd, mode, buffering=0)
            for fd, mode in zip(pipes, ("wb", "rb", "rb"), strict=True)
        )
        self._pipes[0], _ = await loop.connect_write_pipe(lambda: _WritePipe(listener), stdin)
        for fd, file in ((1, stdout), (2, stderr)):
            self._pipes[fd], _ = await loop.connect_read_pipe(_read_pipe(listener, fd), file)
        self._listener = listener
        if self._gone.is_set():
            listener.process_exited()

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._code

    def get_pipe_transport(self, fd: int) -> Any:
        return self._pipes.get(fd)

    def reason(self) -> str:
        over = self.group.excess() if self.group is not None else ""
        return self._reason or over

    def figures(self) -> dict[str, float]:
        counted = self.group.figures() if self.group is not None else {}
        return counted | (self.proxy.figures() if self.proxy is not None else {})

    def kill(self) -> None:
        if not self._is_killed:
            self._is_killed = True
            if self.proxy is not None:
                self.proxy.shut()
            # Before the supervisor can: it shares the CPU with all other processes of the cell.
            if self.group is not None:
                self.group.kill()
        if self._gone.is_set():
            return
        if self._has_namespace and self._pidfd is not None:
            # PID 1 of the namespace: the kernel ends all others with it.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        else:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    async def stop(self) -> None:
        self.kill()
        if not self._has_namespace:  # its folders are on the machine's file system
            await self.clear()
        # In a control group every process has got its signal by now. Without one the kernel ends
        # them one after another; and a write in progress may still become visible to others.
        elif self.group is None or self.shares_folders:
            await self._ended()

    async def clear(self) -> None:
        # The caller may be cancelled; clearing goes on.
        if self._clearing is None:
            self._clearing = asyncio.create_task(self._clear(), name="clearing of a cell")
        await asyncio.shield(self._clearing)

    async def _clear(self) -> None:
        self.kill()
        await self._ended()
        self.disconnect()
        self.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self.proxy is not None:
            await self.proxy.close()
        if self.proxy_socket is not None:
            self.proxy_socket.close()
        if self.group is not None:
            self.has_left_group = not await self.group.remove()
        for remove in reversed(self.cleanups):
            await remove()

    async def _ended(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLEAR_WAIT_S):
                await self._gone.wait()
                await self._over()

    async def _over(self) -> None:
        """Wait for the end of PID 1: the kernel ends all other processes of a namespace before."""
        poll = select.poll()
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        while self._pidfd is not None and not poll.poll(0):  # noqa: ASYNC110 (uvloop's too)
            await asyncio.sleep(CHECK_INTERVAL_S)

    def close(self) -> None:
        self.kill()
        for transport in self._pipes.values():
            transport.close()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = ()

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, STATUS_BYTES, MAX_FDS)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self.disconnect()
            return
        if fds and self._pidfd is None:
            self._pidfd = fds.pop(0)
            if fds:
                self.proxy_socket = socket.socket(fileno=fds.pop(0))
        for fd in fds:
            os.close(fd)
        try:
            status = decode_status(data)
        except msgspec.DecodeError:
            self.disconnect()
            return
        if status.ended is not None:
            self._code, self._reason = status.ended, status.reason
        elif not self._begun.done():
            self._begun.set_result(status)

    def disconnect(self) -> None:
        """Handle the end of the control socket: the supervisor is gone, or the cell never began."""
        if self._gone.is_set():
            return
        self._gone.set()
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        if self._code is None:
            self._code = -signal.SIGKILL
        if not self._begun.done():
            self._begun.set_result(CellStatus(failed="the process died before the work began"))
        if self._listener is not None:
            self._listener.process_exited()


def _read_pipe(listener: asyncio.SubprocessProtocol, fd: int) -> Callable[[], _ReadPipe]:
    return lambda: _ReadPipe(listener, fd)
