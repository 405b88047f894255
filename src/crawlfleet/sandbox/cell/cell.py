"""A cell as the agent sees it: pipes, a lifeline, and an end that is certain."""

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
from crawlfleet.sandbox.kernel.cgroups import Group
from crawlfleet.sandbox.network.proxy import EgressProxy
from crawlfleet.sandbox.spec import Word, decode_word

WORD_BYTES: Final = 1 << 14
MOST_FDS: Final = 8
BEGIN_WAIT_S: Final = 20.0
CLEAR_WAIT_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.002

Traces = Callable[[], Awaitable[None]]
"""Removes what is left of a cell, once nothing of it runs."""


class _Inlet(asyncio.Protocol):
    """What comes out of one pipe of the cell."""

    def __init__(self, listener: asyncio.SubprocessProtocol, fd: int) -> None:
        self._listener, self._fd = listener, fd

    def data_received(self, data: bytes) -> None:
        self._listener.pipe_data_received(self._fd, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.pipe_connection_lost(self._fd, error)


class _Outlet(asyncio.BaseProtocol):
    def __init__(self, listener: asyncio.SubprocessProtocol) -> None:
        self._listener = listener

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.pipe_connection_lost(0, error)


class LocalCell:
    """A `Cell` on this machine; `begin` completes it."""

    def __init__(self, control: socket.socket, *, has_namespace: bool) -> None:
        self._control = control
        self._has_namespace = has_namespace
        self._begun: asyncio.Future[Word] = asyncio.get_running_loop().create_future()
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
        """Whom it becomes, if not to stay this user."""
        self.pipes: tuple[int, ...] = ()
        """Our ends of its stdin, stdout and stderr, until somebody listens to them."""
        self.proxy_socket: socket.socket | None = None
        """The listening socket of its proxy. `clear` closes it, also before anything listens."""
        self.group: Group | None = None
        """Its control group, where it has one."""
        self.has_left_group = False
        """Whether that is still there although the cell was cleared: something in it cannot end."""
        self.proxy: EgressProxy | None = None
        """Its way out."""
        self.shares_folders = False
        """Whether others see what it writes."""
        self.is_made_ahead = False
        self.traces: list[Traces] = []
        """What else is to be removed when it is gone: the last of them first."""
        control.setblocking(False)
        asyncio.get_running_loop().add_reader(control.fileno(), self._hear)

    async def begin(self) -> None:
        """Wait until the work begins; raises `SandboxFailed`."""
        try:
            async with asyncio.timeout(BEGIN_WAIT_S):
                word = await self._begun
        except TimeoutError:
            raise SandboxFailed(
                f"the cell was not ready within {BEGIN_WAIT_S:g} s; is the machine overloaded?"
            ) from None
        if word.failed:
            raise SandboxFailed(f"the cell cannot be made: {word.failed}")
        self._pid = word.begun

    @property
    def is_over(self) -> bool:
        """Whether it has ended, by itself or not."""
        return self._gone.is_set()

    def tell(self, word: bytes) -> None:
        """Send something to whoever watches over it: what it is to be, or that its work begins.
        Raises `OSError`."""
        self._control.send(word)

    async def connect(self, listener: asyncio.SubprocessProtocol) -> None:
        """Let the listener hear the cell."""
        loop = asyncio.get_running_loop()
        listener.connection_made(cast("asyncio.BaseTransport", self))
        pipes, self.pipes = self.pipes, ()
        stdin, stdout, stderr = (
            os.fdopen(fd, mode, buffering=0)
            for fd, mode in zip(pipes, ("wb", "rb", "rb"), strict=True)
        )
        self._pipes[0], _ = await loop.connect_write_pipe(lambda: _Outlet(listener), stdin)
        for fd, file in ((1, stdout), (2, stderr)):
            self._pipes[fd], _ = await loop.connect_read_pipe(_inlet(listener, fd), file)
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
            # Before its warden, which has to share the CPU with all the others.
            if self.group is not None:
                self.group.kill()
        if self._gone.is_set():
            return
        if self._has_namespace and self._pidfd is not None:
            # The first process of its namespace: the kernel ends all others with it.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        else:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    async def stop(self) -> None:
        self.kill()
        if not self._has_namespace:  # its folders are the machine's
            await self.clear()
        # What is in a group has been signalled, each of it. Else the kernel goes from one to the
        # next; and what was being written when the signal came may still be seen.
        elif self.group is None or self.shares_folders:
            await self._ended()

    async def clear(self) -> None:
        # Whoever waits for it may be cancelled: it goes on to its end.
        if self._clearing is None:
            self._clearing = asyncio.create_task(self._clear(), name="clearing of a cell")
        await asyncio.shield(self._clearing)

    async def _clear(self) -> None:
        self.kill()
        await self._ended()
        self.hang_up()
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
        for remove in reversed(self.traces):
            await remove()

    async def _ended(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLEAR_WAIT_S):
                await self._gone.wait()
                await self._over()

    async def _over(self) -> None:
        """The kernel ends a namespace of processes before its first one is over, which can be
        seen."""
        poll = select.poll()
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        while self._pidfd is not None and not poll.poll(0):  # noqa: ASYNC110 (uvloop's too)
            await asyncio.sleep(LOOK_AGAIN_S)

    def close(self) -> None:
        self.kill()
        for transport in self._pipes.values():
            transport.close()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = ()

    def _hear(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, WORD_BYTES, MOST_FDS)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self.hang_up()
            return
        if fds and self._pidfd is None:
            self._pidfd = fds.pop(0)
            if fds:
                self.proxy_socket = socket.socket(fileno=fds.pop(0))
        for fd in fds:
            os.close(fd)
        try:
            word = decode_word(data)
        except msgspec.DecodeError:
            self.hang_up()
            return
        if word.ended is not None:
            self._code, self._reason = word.ended, word.reason
        elif not self._begun.done():
            self._begun.set_result(word)

    def hang_up(self) -> None:
        """The other end is closed: nothing of the cell can be left but what the kernel ends."""
        if self._gone.is_set():
            return
        self._gone.set()
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        if self._code is None:
            self._code = -signal.SIGKILL
        if not self._begun.done():
            self._begun.set_result(Word(failed="the process died before the work began"))
        if self._listener is not None:
            self._listener.process_exited()


def _inlet(listener: asyncio.SubprocessProtocol, fd: int) -> Callable[[], _Inlet]:
    return lambda: _Inlet(listener, fd)
