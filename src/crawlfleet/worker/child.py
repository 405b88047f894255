"""The program of a Python executor process: `python -m crawlfleet.worker.child PARENT_PID`.

It answers `hello`, then runs one execution after the other. An executor is imported when its
task type is first asked for. Orders are read while the work runs, so that `cancel` arrives.
User code sees an empty stdin, and a stdout that goes to the log: it cannot break the protocol.
"""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any, Final

import msgspec

from crawlfleet import plugins
from crawlfleet.errors import CrawlfleetError, PluginError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Executor, Measured
from crawlfleet.worker import leash, pipe

CHUNK_BYTES: Final = 1 << 16
EXIT_PROTOCOL: Final = 76
PROGRESS_INTERVAL_S: Final = 0.1
"""People cannot read faster, and a loop that reports each step must not flood the pipe."""


class Replies:
    """The way back to the pool; may be used from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, reply: pipe.Reply) -> None:
        line = pipe.encode(reply)
        with self._lock:
            while line:
                line = line[os.write(self._fd, line) :]


class ChildContext:
    """The `Context` of one execution."""

    def __init__(self, start: pipe.Start, replies: Replies) -> None:
        self.task_id = start.task_id
        self.attempt = start.attempt
        self._execution_id = start.execution_id
        self._replies = replies
        self._reported_at = float("-inf")

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        self._replies.send(
            pipe.Log(
                execution_id=self._execution_id,
                message=_clean(message),
                level=str(level),
                fields={name: _plain(value) for name, value in fields.items()},
            )
        )

    async def progress(self, done: float, total: float | None = None) -> None:
        now = time.monotonic()
        if done == total or now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._replies.send(
                pipe.Progress(execution_id=self._execution_id, done=done, total=total)
            )


class Host:
    """Carries out the orders of the pool."""

    def __init__(self, orders_fd: int, replies: Replies) -> None:
        self._orders_fd = orders_fd
        self._lines = pipe.Lines(pipe.MAX_ORDER_BYTES)
        self._replies = replies
        self._settings = WorkerSettings()
        self._executors: dict[str, Executor] = {}
        self._running: tuple[str, asyncio.Task[None]] | None = None
        self._cancelled = False

    async def serve(self) -> None:
        """Runs until the pool closes the pipe, which ends the whole process."""
        asyncio.get_running_loop().add_reader(self._orders_fd, self._read)
        await asyncio.Event().wait()

    def _read(self) -> None:
        data = os.read(self._orders_fd, CHUNK_BYTES)
        if not data:
            leave()
        try:
            for line in self._lines.feed(data):
                self._take(pipe.decode_order(line))
        except CrawlfleetError as error:
            sys.stderr.write(f"the pool broke the protocol: {error}\n")
            os._exit(EXIT_PROTOCOL)

    def _take(self, order: pipe.Hello | pipe.Start | pipe.Cancel) -> None:
        match order:
            case pipe.Hello():
                self._settings = WorkerSettings(
                    python_allow=order.python_allow,
                    python_modules=order.python_modules,
                    allow_private=order.allow_private,
                )
                task_types = plugins.names(plugins.EXECUTORS)
                self._replies.send(pipe.Ready(protocol=pipe.PROTOCOL, task_types=task_types))
            case pipe.Start():
                self._cancelled = False
                task = asyncio.get_running_loop().create_task(self._execute(order))
                self._running = order.execution_id, task
            case pipe.Cancel() if self._running and self._running[0] == order.execution_id:
                self._cancelled = True
                self._running[1].cancel()

    async def _execute(self, start: pipe.Start) -> None:
        ending: pipe.Reply
        try:
            ending = await self._result(start)
        except asyncio.CancelledError as error:
            if self._cancelled:
                ending = pipe.Stopped(execution_id=start.execution_id)
            else:
                ending = _error(start.execution_id, error)
        except BaseException as error:  # `sys.exit` of user code ends the work, not the process
            ending = _error(start.execution_id, error)
        self._running = None
        self._replies.send(ending)

    async def _result(self, start: pipe.Start) -> pipe.Reply:
        executor = self._executor(start.task_type)
        try:
            parameters = msgspec.json.decode(start.parameters, type=executor.Parameters)
        except msgspec.ValidationError as error:
            return pipe.Error(
                execution_id=start.execution_id,
                error_class=ErrorClass.INVALID,
                message=f"{start.task_type}: {str(error).replace('`$', '`parameters')}",
            )
        self._replies.send(pipe.Started(execution_id=start.execution_id))
        cpu = time.process_time()
        value = await executor.run(parameters, ChildContext(start, self._replies))
        metrics = {"cpu_s": time.process_time() - cpu}
        if isinstance(value, Measured):
            metrics |= value.metrics
            value = value.data
        try:
            data = msgspec.json.encode(value)
        except Exception as error:
            message = f"the result cannot be written as JSON: {error}"
            return pipe.Error(execution_id=start.execution_id, message=_clean(message))
        if len(data) > pipe.MAX_RESULT_BYTES:
            return pipe.Error(execution_id=start.execution_id, message=pipe.too_large(len(data)))
        return pipe.Result(execution_id=start.execution_id, data=msgspec.Raw(data), metrics=metrics)

    def _executor(self, task_type: str) -> Executor:
        if task_type not in self._executors:
            part = plugins.load_one(plugins.EXECUTORS, task_type)
            make = getattr(part, "from_settings", None)
            executor = make(self._settings) if make else part()
            if not hasattr(executor, "Parameters") or not hasattr(executor, "run"):
                raise PluginError(
                    f"the executor {task_type!r} ({part!r}) is not one: it needs a struct"
                    " `Parameters` and a method `async def run(self, parameters, context)`"
                )
            self._executors[task_type] = executor
        return self._executors[task_type]


def leave() -> None:
    """End this process and all that it started."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _error(execution_id: str, error: BaseException) -> pipe.Error:
    """What happened, with a traceback unless the exception was meant for people."""
    if isinstance(error, CrawlfleetError):
        message, details = str(error), ""
    else:
        message = f"{type(error).__name__}: {error}"
        details = "".join(traceback.format_exception(error))
    return pipe.Error(
        execution_id=execution_id,
        error_class=_error_class(error),
        message=_clean(message),
        details=_clean(details[-pipe.MAX_DETAILS_CHARS :], pipe.MAX_DETAILS_CHARS),
    )


def _error_class(error: BaseException) -> ErrorClass:
    """The exception's own attribute `error_class` decides, else what it is."""
    try:
        return ErrorClass(error.error_class)  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        unreachable = isinstance(error, ConnectionError | socket.gaierror)
        return ErrorClass.NETWORK if unreachable else ErrorClass.ERROR


def _clean(text: str, limit: int = pipe.MAX_MESSAGE_CHARS) -> str:
    """Text that can be sent: not too long, and without the half characters of broken input."""
    return str(text)[:limit].encode(errors="backslashreplace").decode()


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | None) else _clean(value)


def main() -> None:
    leash.tie(int(sys.argv[1]))
    orders_fd, replies_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    serving = Host(orders_fd, Replies(replies_fd)).serve()
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


if __name__ == "__main__":
    main()
