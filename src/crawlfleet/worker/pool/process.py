"""One executor process as the pool uses it: its start, its messages, and its certain end.

A message out of turn ends the process.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from crawlfleet import telemetry
from crawlfleet.errors import SandboxFailed
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import NotBegun, Observer
from crawlfleet.ports.sandbox import Cell, CellOrder, Sandbox
from crawlfleet.worker import parent_watch
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.executions import SentExecution
from crawlfleet.worker.pool.output import Output
from crawlfleet.worker.pool.process_io import ProcessChannel

KEPT_VARIABLES: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""The only variables of the agent's environment that an executor gets: no tokens, no settings."""
PYTHON_HOST: Final = (sys.executable, "-m", "crawlfleet.worker.executor.main")
LEASH: Final = (sys.executable, "-I", "-S", str(Path(parent_watch.__file__)))

EXIT_WAIT_S: Final = 1.0
"""Seconds in which a process must exit after it closed its stdout; then it is killed."""
LAST_WORDS_S: Final = 0.2
"""Seconds in which the pipe of a dead process may still deliver its last output."""
REAP_WAIT_S: Final = 5.0


class ProcessGone(Exception):
    """The process is gone, or had to be ended. The message has the reason, and is empty when the
    process just died."""

    def __init__(self, message: str = "", error_class: ErrorClass = ErrorClass.CRASH) -> None:
        super().__init__(message)
        self.error_class = error_class


class ProcessNotStarted(Exception):
    """An executor process did not start; `output` is the last of its output."""

    def __init__(self, message: str, output: str = "", *, has_died: bool = False) -> None:
        """`has_died` is set when the process had started and was not ended on purpose."""
        super().__init__(message)
        self.output = output
        self.has_died = has_died


def environment(parent: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of an executor process, made from scratch."""
    kept = {name: parent[name] for name in KEPT_VARIABLES if name in parent}
    return {"PATH": os.defpath, "LANG": "C.UTF-8"} | kept


def command_line(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line of a process that dies with this one; without a `command`, that of
    the Python executors."""
    parent = str(os.getpid())
    return (*LEASH, parent, *command) if command else (*PYTHON_HOST, parent)


class ExecutorProcess(asyncio.SubprocessProtocol):
    """An executor process. `spawn` starts it; `retire` or `end` ends it. Both may be called at any
    time, and again."""

    def __init__(self, kind: str, *, confined: bool = False) -> None:
        """Create the object for a process. A `confined` one gets its messages from a cell, which is
        its transport."""
        self.kind = kind
        self._confined = confined
        self.executions = 0
        self.departed = False
        self.takes_orders = False
        self.is_private = False
        """True when the process serves one execution only, for instance because it received
        secrets."""
        self._log = telemetry.logger(telemetry.Component.WORKER)
        self._loop = asyncio.get_running_loop()
        self._output = Output()
        self._channel = ProcessChannel(self._output, self._write, self._loop)
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._ended = False
        self._cell: Cell | None = None

    @classmethod
    async def spawn(
        cls,
        kind: str,
        command: Sequence[str],
        hello: protocol.Hello,
        ready_timeout_s: float,
        *,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> "ExecutorProcess":
        """Start a process and wait until it is ready. Raises `ProcessNotStarted` if it does not get
        ready.

        It has these `variables` and no others, and starts in the `folder`; without them, those of
        every executor.
        """
        loop = asyncio.get_running_loop()
        try:
            _, child = await loop.subprocess_exec(
                lambda: cls(kind),
                *command_line(command),
                env=environment(os.environ) if variables is None else variables,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessNotStarted(f"no process can be started: {error}") from error
        return await child._made_ready(hello, ready_timeout_s)

    @classmethod
    async def confine(
        cls,
        kind: str,
        order: CellOrder,
        sandbox: Sandbox,
        hello: protocol.Hello,
        ready_timeout_s: float,
    ) -> "ExecutorProcess":
        """Start a process in a cell of its own, for one execution. If a cell that was made ahead
        has died by then, another one is used."""
        ahead = True
        while True:
            try:
                cell, child = await sandbox.start(
                    order, lambda: cls(kind, confined=True), ahead=ahead
                )
            except SandboxFailed as error:
                raise ProcessNotStarted(str(error)) from error
            try:
                return await child._made_ready(hello, ready_timeout_s)
            except ProcessNotStarted as failure:
                if not (ahead and cell.is_made_ahead and failure.has_died):
                    raise
                ahead = False

    async def _made_ready(self, hello: protocol.Hello, ready_timeout_s: float) -> "ExecutorProcess":
        try:
            await self._greet(hello, ready_timeout_s)
        except ProcessGone as departure:
            if str(departure):
                self.kill()
            end, output = await self.exit_report()
            why = str(departure) or f"the executor process {end} before it was ready"
            raise ProcessNotStarted(why, output, has_died=not str(departure)) from None
        except BaseException:
            await self.end()
            raise
        return self

    async def _greet(self, hello: protocol.Hello, ready_timeout_s: float) -> None:
        self._channel.send(hello)
        try:
            async with asyncio.timeout(ready_timeout_s):
                ready = await self._channel.ready
        except TimeoutError:
            raise ProcessGone(
                f"the executor process did not say `ready` within {ready_timeout_s:g} s"
            ) from None
        self.takes_orders = protocol.ORDERS in ready.takes
        if ready.protocol != protocol.PROTOCOL:
            raise ProcessGone(
                f"the executor process speaks protocol {ready.protocol},"
                f" this crawlfleet speaks {protocol.PROTOCOL}; install versions that fit"
            )
        if self.kind and ready.task_types and self.kind not in ready.task_types:
            raise ProcessGone(
                f"the program set for {self.kind!r} runs only {', '.join(ready.task_types)};"
                " correct `worker.commands`"
            )
        self._channel.let_queue(ready.ahead)

    @property
    def is_confined(self) -> bool:
        """True when the process runs in a cell, which is not used again."""
        return self._cell is not None

    @property
    def figures(self) -> dict[str, float]:
        """Return the resources that the process used, where they are counted; else nothing."""
        return self._cell.figures() if self._cell is not None else {}

    @property
    def under_way(self) -> int:
        """The number of executions that were sent and have not ended."""
        return self._channel.under_way

    @property
    def ahead(self) -> int:
        """The number of executions that may be sent ahead."""
        return self._channel.ahead

    def begin(
        self, start: protocol.Start, observer: Observer, limit_s: float | None
    ) -> SentExecution:
        """Send an execution and return its state, whose `ended` resolves at its end. A caller that
        is cancelled while it waits must `halt` it."""
        self.executions += 1
        if self.departed:
            talk = SentExecution(start.execution_id, observer, limit_s, self._loop)
            talk.fail(ProcessGone("the executor process is gone"))
            return talk
        return self._channel.begin(start, observer, limit_s)

    def tell(self, order: protocol.WorkOrder | protocol.Response) -> bool:
        """Send an order or response to the execution that runs. Returns false, without sending, if
        that is not the one meant."""
        return self._channel.tell(order)

    async def halt(self, talk: SentExecution, grace_s: float) -> bool:
        """Cancel an execution. Returns whether the process stopped it in time and can be used
        again."""
        if talk.ending is not None or self.departed:
            return not self.departed
        talk.listen_again()
        talk.must_stop = True
        self._channel.send(protocol.Cancel(execution_id=talk.id))
        try:
            async with asyncio.timeout(grace_s):
                await talk.ended
        except (TimeoutError, ProcessGone, NotBegun):
            return False
        return True

    async def exit_report(self) -> tuple[str, str]:
        """Return how a departed process ended, in words, and the last of its output."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_WAIT_S):
                await self._exited.wait()
        code = self._transport.get_returncode()
        self.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._silent.wait()
        manner = _manner(code)
        if self._cell is not None and (reason := self._cell.reason()):
            manner = f"{reason}, and was ended"
        await self.end()
        self._output.end_line()
        return manner, self._output.tail

    async def retire(self, grace_s: float) -> None:
        """End the process by closing its stdin; by force after the grace. A cell whose work is done
        is ended at once: it is not used again."""
        if self._cell is not None and not self.under_way:
            self.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._silent.wait()
            await self.end()
            return
        if stdin := self._transport.get_pipe_transport(0):
            stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._exited.wait()
        finally:
            await self.end()

    async def stop(self) -> None:
        """Kill the process and all processes of its cell; `end` removes the cell's files."""
        self.kill()
        if self._cell is not None:
            await self._cell.stop()

    async def end(self) -> None:
        """Kill the process with all descendants in its process group, and reap it."""
        self.kill()
        try:
            async with asyncio.timeout(REAP_WAIT_S):
                await self._exited.wait()
        except TimeoutError:
            self._log.error("executor_process_unkillable", pid=self._transport.get_pid())
        finally:
            self._ended = self._exited.is_set()
            self._transport.close()
            if self._cell is not None:
                await self._cell.clear()

    def kill(self) -> None:
        """Kill the process; `end` waits until it is dead."""
        if self._cell is not None:
            self._cell.kill()
        elif not self._ended:  # afterwards, the number may belong to somebody else
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def _write(self, data: bytes) -> None:
        stdin = self._transport.get_pipe_transport(0)
        if stdin and not stdin.is_closing():
            cast("asyncio.WriteTransport", stdin).write(data)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        if self._confined:
            # Before anything is heard: whoever speaks out of turn is killed, as a cell is.
            self._cell = cast("Cell", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._channel.hear_output(data)
            return
        if self.departed:
            return
        try:
            self._channel.hear(data)
        except protocol.Malformed as error:
            self._depart(ProcessGone(f"the executor process broke the protocol: {error}"))
        except protocol.LineTooLong as error:
            self._depart(
                ProcessGone(
                    f"the executor process sent {error}; a result may have"
                    f" {protocol.MAX_RESULT_BYTES:,} bytes, more belongs into a sink or a file",
                    ErrorClass.ERROR,
                )
            )

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._depart(ProcessGone())
        elif fd == 2:
            self._silent.set()

    def process_exited(self) -> None:
        self._exited.set()
        # A descendant may hold the pipe open, so that its end never comes.
        self._loop.call_later(LAST_WORDS_S, self._depart, ProcessGone())

    def _depart(self, why: ProcessGone) -> None:
        if self.departed:
            return
        self.departed = True
        self._channel.break_off(why)
        if str(why):
            self.kill()


def _manner(code: int | None) -> str:
    if code is None:
        return "closed its stdout without exiting"
    if code >= 0:
        return f"exited with code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was killed by {known.get(-code, f'signal {-code}')}"
