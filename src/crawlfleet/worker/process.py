"""One executor process as the pool sees it: orders in, replies out, and a certain end.

A process runs one execution at a time. Whatever it sends out of turn ends it: a process that
does not keep to the protocol cannot be trusted to say how the next execution went.
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
from crawlfleet.model.log import LogLevel
from crawlfleet.model.messages import OrderAnswer
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Observer
from crawlfleet.worker import leash, pipe

KEPT_VARIABLES: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""All of the agent's environment that an executor gets to see: no tokens, no settings."""
PYTHON_HOST: Final = (sys.executable, "-m", "crawlfleet.worker.child")
LEASH: Final = (sys.executable, "-I", "-S", str(Path(leash.__file__)))

OUTPUT_TAIL_BYTES: Final = 8_000
OUTPUT_LINES_LOGGED: Final = 1_000
"""Outside of executions; a program that prints for ever must not fill the node's log."""
OUTPUT_LINE_CHARS: Final = 2_000
EXIT_WAIT_S: Final = 1.0
"""How long a process that closed its stdout may take to exit, before it is killed."""
LAST_WORDS_S: Final = 0.2
"""After the process is gone, how long its pipe may still deliver what it had written."""
REAP_WAIT_S: Final = 5.0

_LEVELS: Final = {str(level): level for level in LogLevel}
Milestone = pipe.Ready | pipe.Ending


class Departed(Exception):
    """The process is gone, or had to go. The message says why, and is empty when it just died."""

    def __init__(self, message: str = "", error_class: ErrorClass = ErrorClass.CRASH) -> None:
        super().__init__(message)
        self.error_class = error_class


class FailedStart(Exception):
    """There is no process; `output` is the last of what it printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def environment(parent: Mapping[str, str]) -> dict[str, str]:
    """The environment of an executor process, made from scratch."""
    kept = {name: parent[name] for name in KEPT_VARIABLES if name in parent}
    return {"PATH": os.defpath, "LANG": "C.UTF-8"} | kept


def command_line(command: Sequence[str]) -> tuple[str, ...]:
    """How a process is started that dies with this one; without a command, the Python host."""
    parent = str(os.getpid())
    return (*LEASH, parent, *command) if command else (*PYTHON_HOST, parent)


class Child(asyncio.SubprocessProtocol):
    """Made by `spawn`, ended by `retire` or `end`; both may be called at any time, and again."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.executions = 0
        self.departed = False
        self.takes_orders = False
        self._log = telemetry.logger(telemetry.Component.WORKER)
        self._inbox: asyncio.Queue[Milestone | Departed] = asyncio.Queue()
        self._lines = pipe.Lines(pipe.MAX_REPLY_BYTES)
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()
        self._execution_id: str | None = None
        self._cancelled_id: str | None = None
        self._expected: tuple[type, ...] = (pipe.Ready,)
        self._observer: Observer | None = None
        """Of the present execution, or the last one: output may come after the result."""
        self._output = b""
        self._partial_line = b""
        self._ended = False
        self._lines_left = OUTPUT_LINES_LOGGED

    @classmethod
    async def spawn(
        cls, kind: str, command: Sequence[str], hello: pipe.Hello, ready_timeout_s: float
    ) -> "Child":
        """A process that said `ready`; raises `FailedStart` when it does not come to that."""
        loop = asyncio.get_running_loop()
        try:
            _, child = await loop.subprocess_exec(
                lambda: cls(kind),
                *command_line(command),
                env=environment(os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise FailedStart(f"no process can be started: {error}") from error
        try:
            await child._greet(hello, ready_timeout_s)
        except Departed as departure:
            if str(departure):
                child.kill()
            end, output = await child.obituary()
            why = str(departure) or f"the executor process {end} before it was ready"
            raise FailedStart(why, output) from None
        except BaseException:
            await child.end()
            raise
        return child

    async def _greet(self, hello: pipe.Hello, ready_timeout_s: float) -> None:
        self._send(hello)
        try:
            async with asyncio.timeout(ready_timeout_s):
                ready = cast("pipe.Ready", await self._receive())
        except TimeoutError:
            raise Departed(
                f"the executor process did not say `ready` within {ready_timeout_s:g} s"
            ) from None
        self.takes_orders = pipe.ORDERS in ready.takes
        if ready.protocol != pipe.PROTOCOL:
            raise Departed(
                f"the executor process speaks protocol {ready.protocol},"
                f" this crawlfleet speaks {pipe.PROTOCOL}; install versions that fit"
            )
        if self.kind and ready.task_types and self.kind not in ready.task_types:
            raise Departed(
                f"the program set for {self.kind!r} runs only {', '.join(ready.task_types)};"
                " correct `worker.commands`"
            )

    async def execute(self, start: pipe.Start, observer: Observer) -> pipe.Result | pipe.Error:
        """Run it to its end. Raises `Departed`. When cancelled, `halt` has to follow."""
        self.executions += 1
        self._take_rest_of_output()
        self._execution_id = start.execution_id
        self._observer = observer
        self._expected = (pipe.Started, pipe.Result, pipe.Error)
        self._output = b""
        self._send(start)
        return cast("pipe.Result | pipe.Error", await self._receive())

    def tell(self, order: pipe.Obey | pipe.Kept) -> bool:
        """Send something about the present execution; whether it is that one."""
        present = self._execution_id is not None and order.execution_id == self._execution_id
        if present:
            self._send(order)
        return present

    async def halt(self, grace_s: float) -> bool:
        """Stop what runs; whether the process ended it in time and can be used again."""
        if self._execution_id is not None:
            self._expected += (pipe.Stopped,)
            self._cancelled_id = self._execution_id
            self._send(pipe.Cancel(execution_id=self._execution_id))
        try:
            async with asyncio.timeout(grace_s):
                await self._receive()
        except (TimeoutError, Departed):
            return False
        return True

    async def obituary(self) -> tuple[str, str]:
        """How a departed process ended, in words, and the last of what it printed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_WAIT_S):
                await self._exited.wait()
        code = self._transport.get_returncode()
        self.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._silent.wait()
        await self.end()
        self._take_rest_of_output()
        return _manner(code), self._output.decode(errors="replace").strip()

    async def retire(self, grace_s: float) -> None:
        """Let it go by closing its stdin; by force after the grace."""
        if stdin := self._transport.get_pipe_transport(0):
            stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._exited.wait()
        finally:
            await self.end()

    async def end(self) -> None:
        """Kill it with all its descendants that stayed in its group, and reap it."""
        self.kill()
        try:
            async with asyncio.timeout(REAP_WAIT_S):
                await self._exited.wait()
        except TimeoutError:
            self._log.error("executor_process_unkillable", pid=self._transport.get_pid())
        finally:
            self._ended = self._exited.is_set()
            self._transport.close()

    def kill(self) -> None:
        """Order its end; `end` waits for it."""
        if not self._ended:  # afterwards, the number may belong to somebody else
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def _send(self, order: pipe.Order) -> None:
        stdin = self._transport.get_pipe_transport(0)
        if stdin and not stdin.is_closing():
            cast("asyncio.WriteTransport", stdin).write(pipe.encode(order))

    async def _receive(self) -> Milestone:
        if self.departed and self._inbox.empty():
            raise Departed("the executor process is gone")
        item = await self._inbox.get()
        if isinstance(item, Departed):
            raise item
        return item

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._take_output(data)
            return
        if self.departed:
            return
        try:
            for line in self._lines.feed(data):
                self._take_reply(pipe.decode_reply(line))
        except pipe.Malformed as error:
            self._depart(Departed(f"the executor process broke the protocol: {error}"))
        except pipe.LineTooLong as error:
            self._depart(
                Departed(
                    f"the executor process sent {error}; a result may have"
                    f" {pipe.MAX_RESULT_BYTES:,} bytes, more belongs into a sink or a file",
                    ErrorClass.ERROR,
                )
            )

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._depart(Departed())
        elif fd == 2:
            self._silent.set()

    def process_exited(self) -> None:
        self._exited.set()
        # A descendant may hold the pipe open, so that its end never comes.
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self._depart, Departed())

    def _take_reply(self, reply: pipe.AnyReply) -> None:
        if isinstance(reply, pipe.Aside):
            # Late ones of an earlier execution are of no interest, and no breach.
            if reply.execution_id == self._execution_id:
                self._take_note(reply)
            return
        about = None if isinstance(reply, pipe.Ready) else reply.execution_id
        if isinstance(reply, pipe.Stopped) and about == self._cancelled_id != self._execution_id:
            return  # the order to stop crossed the ending on its way
        if not isinstance(reply, self._expected) or about != self._execution_id:
            kind = type(reply).__name__.lower()
            raise pipe.Malformed(f"`{kind}` about {about} came out of turn")
        if isinstance(reply, pipe.Started):
            self._expected = tuple(kind for kind in self._expected if kind is not pipe.Started)
            if self._observer is not None:
                self._observer.started()
            return
        self._expected, self._execution_id = (), None
        if self._partial_line:
            asyncio.get_running_loop().call_soon(self._take_rest_of_output)
        self._inbox.put_nowait(reply)

    def _take_note(self, note: pipe.Aside) -> None:
        observer = self._observer
        if observer is None:
            return
        match note:
            case pipe.Progress():
                observer.progress(note.done, note.total)
            case pipe.Log():
                observer.log(note.message, _LEVELS.get(note.level, LogLevel.INFO), note.fields)
            case pipe.Figures():
                observer.figures(note.figures)
            case pipe.Answer():
                answer = OrderAnswer(number=note.number, data=note.data, error=note.error)
                observer.answer(answer)
            case pipe.Segment():
                if not observer.segment(note.stream, note.segment, note.data):
                    self.tell(
                        pipe.Kept(
                            execution_id=note.execution_id,
                            stream=note.stream,
                            sequence=note.segment.sequence,
                            refusal="nobody keeps output here",
                        )
                    )

    def _take_output(self, data: bytes) -> None:
        self._output = (self._output + data)[-OUTPUT_TAIL_BYTES:]
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > OUTPUT_LINE_CHARS:
            lines.append(self._partial_line)
            self._partial_line = b""
        for line in lines:
            self._take_line(line)
        if self._execution_id is None:
            self._take_rest_of_output()  # the work is over: nothing will end the line

    def _take_rest_of_output(self) -> None:
        """A last line without an end is one all the same."""
        rest, self._partial_line = self._partial_line, b""
        if rest:
            self._take_line(rest)

    def _take_line(self, line: bytes) -> None:
        text = line[:OUTPUT_LINE_CHARS].decode(errors="replace").rstrip("\r")
        if self._observer is not None:
            self._observer.log(text, LogLevel.INFO, {})
        elif self._lines_left:
            self._lines_left -= 1
            self._log.info("executor_output", line=text)

    def _depart(self, why: Departed) -> None:
        if not self.departed:
            self.departed = True
            self._inbox.put_nowait(why)
            if str(why):
                self.kill()


def _manner(code: int | None) -> str:
    if code is None:
        return "closed its stdout without exiting"
    if code >= 0:
        return f"exited with code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was killed by {known.get(-code, f'signal {-code}')}"
