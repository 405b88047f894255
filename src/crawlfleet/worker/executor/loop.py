"""Part of the executor process: runs one execution after the other, as the pool orders.

An executor is imported when its task type is first asked for. Orders are read while an execution
runs, so that `cancel` arrives.
"""

import asyncio
import contextvars
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any, Final

import msgspec

from crawlfleet import plugins
from crawlfleet.errors import CrawlfleetError, PluginError
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Executor, Measured
from crawlfleet.worker.executor.context import ExecutionContext
from crawlfleet.worker.executor.replies import PATIENCE_S, Replies, Waiting
from crawlfleet.worker.pool import protocol

CHUNK_BYTES: Final = 1 << 16
EXIT_PROTOCOL: Final = 76


class Host:
    """Carries out the orders of the pool."""

    def __init__(self, orders_fd: int, replies: Replies, *, patience_s: float = PATIENCE_S) -> None:
        """Create the loop. Executions that were sent ahead go back to the pool when the one before
        them takes longer than `patience_s`."""
        self._orders_fd = orders_fd
        self._lines = protocol.Lines(protocol.MAX_ORDER_BYTES)
        self._replies = replies
        self._settings = WorkerSettings()
        self._takes: tuple[str, ...] = ()
        self._executors: dict[str, tuple[Executor, msgspec.json.Decoder[Any]]] = {}
        """Executors by task type, each with the decoder of its parameters."""
        self._running: tuple[str, asyncio.Task[None]] | None = None
        self._context: ExecutionContext | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._cancelled = False
        self._entered = False
        """True when the running task has taken its first step and can be interrupted."""
        self._waiting = Waiting(replies, patience_s=patience_s)
        self.latest_id: str | None = None
        """The execution that was begun last."""

    async def serve(self) -> None:
        """Runs until the pool closes the pipe, which ends the whole process."""
        self._loop = asyncio.get_running_loop()
        self._surroundings = contextvars.copy_context()
        """Context in which each execution starts: variables that one execution sets are not seen by
        the next."""
        self._loop.add_reader(self._orders_fd, self._read)
        try:
            await asyncio.Event().wait()
        finally:
            self._waiting.close()

    def _read(self) -> None:
        data = os.read(self._orders_fd, CHUNK_BYTES)
        if not data:
            leave()
        try:
            for line in self._lines.feed(data):
                self._take(protocol.decode_order(line))
        except CrawlfleetError as error:
            sys.stderr.write(f"the pool broke the protocol: {error}\n")
            os._exit(EXIT_PROTOCOL)

    def _take(self, order: protocol.AnyOrder) -> None:
        match order:
            case protocol.Hello():
                self._settings = WorkerSettings(
                    python_allow=order.python_allow,
                    python_modules=order.python_modules,
                    allow_private=order.allow_private,
                    sinks_dir=order.sinks_dir,
                )
                self._takes = order.takes
                task_types = plugins.names(plugins.EXECUTORS)
                self._replies.send(
                    protocol.Ready(
                        protocol=protocol.PROTOCOL,
                        task_types=task_types,
                        takes=(protocol.ORDERS,),
                        ahead=order.ahead,
                    )
                )
            case protocol.Start():
                if self._running is None:
                    self._begin(order)
                else:
                    self._waiting.add(order)
            case protocol.Cancel() if self._running and self._running[0] == order.execution_id:
                self._cancelled = True
                if self._entered:
                    self._running[1].cancel()
                self._replies.flush()
            case protocol.Cancel():
                if self._waiting.remove(order.execution_id):
                    self._replies.send(protocol.Stopped(execution_id=order.execution_id))
                self._replies.flush()
            case protocol.Response() if self._concerns(order.execution_id) and self._context:
                self._context.services.receive(order)
            case protocol.WorkOrder() if self._concerns(order.execution_id) and self._context:
                errand = self._loop.create_task(self._context.carry_out(order))
                self._errands.add(errand)
                errand.add_done_callback(self._errands.discard)

    def _concerns(self, execution_id: str) -> bool:
        return self._running is not None and self._running[0] == execution_id

    def _begin(self, start: protocol.Start) -> None:
        self._cancelled = self._entered = False
        self._context = ExecutionContext(start, self._replies, takes=self._takes)
        around = self._surroundings.copy()
        task = self._loop.create_task(self._execute(start), context=around)
        self._running = start.execution_id, task

    async def _execute(self, start: protocol.Start) -> None:
        ending: protocol.Reply
        self._entered = True
        try:
            if self._cancelled:
                # A task that is cancelled before its first step never comes here, and would never
                # say that it ended; so it was left alone.
                raise asyncio.CancelledError
            ending = await self._result(start)
        except asyncio.CancelledError as error:
            if self._cancelled:
                ending = protocol.Stopped(execution_id=start.execution_id)
            else:
                ending = _error(start.execution_id, error)
        except BaseException as error:  # `sys.exit` of user code ends the work, not the process
            ending = _error(start.execution_id, error)
        sys.stdout.flush()
        sys.stderr.flush()
        self._running = None
        for errand in self._errands:
            errand.cancel()
        if (following := self._waiting.next()) is not None:
            # Its start tells of this end, too.
            self._replies.keep(ending)
            self._begin(following)
        else:
            self._replies.send(ending)

    async def _result(self, start: protocol.Start) -> protocol.Reply:
        prepared = self._executors.get(start.task_type)
        if prepared is None:
            self._replies.flush()  # importing it may take a while
            prepared = self._prepare(start.task_type)
        executor, decoder = prepared
        try:
            parameters = decoder.decode(start.parameters)
        except msgspec.ValidationError as error:
            return protocol.Error(
                execution_id=start.execution_id,
                error_class=ErrorClass.INVALID,
                message=f"{start.task_type}: {str(error).replace('`$', '`parameters')}",
            )
        self.latest_id = start.execution_id
        self._replies.send(protocol.Started(execution_id=start.execution_id))
        cpu = time.process_time()
        assert self._context is not None, "made when the order came"
        if start.secrets and getattr(executor, "secrets_as_variables", True):
            os.environ.update(start.secrets)  # the process ends with the work
        value = await executor.run(parameters, self._context)
        metrics = {"cpu_s": time.process_time() - cpu}
        if isinstance(value, Measured):
            metrics |= value.metrics
            value = value.data
        try:
            data = msgspec.json.encode(value)
        except Exception as error:
            message = f"the result cannot be written as JSON: {error}"
            return protocol.Error(execution_id=start.execution_id, message=protocol.clean(message))
        if len(data) > protocol.MAX_RESULT_BYTES:
            return protocol.Error(
                execution_id=start.execution_id, message=protocol.too_large(len(data))
            )
        return protocol.Result(
            execution_id=start.execution_id, data=msgspec.Raw(data), metrics=metrics
        )

    def _prepare(self, task_type: str) -> tuple[Executor, msgspec.json.Decoder[Any]]:
        part = plugins.load_one(plugins.EXECUTORS, task_type)
        make = getattr(part, "from_settings", None)
        executor: Executor = make(self._settings) if make else part()
        if not hasattr(executor, "Parameters") or not hasattr(executor, "run"):
            raise PluginError(
                f"the executor {task_type!r} ({part!r}) is not one: it needs a struct"
                " `Parameters` and a method `async def run(self, parameters, context)`"
            )
        prepared = executor, msgspec.json.Decoder(executor.Parameters)
        self._executors[task_type] = prepared
        return prepared


def leave() -> None:
    """End this process and all that it started."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _error(execution_id: str, error: BaseException) -> protocol.Error:
    """Return the error message to send, with a traceback unless the exception was meant for
    people."""
    if isinstance(error, CrawlfleetError):
        message, details = str(error), ""
    else:
        message = f"{type(error).__name__}: {error}"
        details = "".join(traceback.format_exception(error))
    return protocol.Error(
        execution_id=execution_id,
        error_class=_error_class(error),
        message=protocol.clean(message),
        details=protocol.clean(details[-protocol.MAX_DETAILS_CHARS :], protocol.MAX_DETAILS_CHARS),
    )


def _error_class(error: BaseException) -> ErrorClass:
    """Return the exception's own attribute `error_class`, or else the class that fits its type."""
    try:
        return ErrorClass(error.error_class)  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        unreachable = isinstance(error, ConnectionError | socket.gaierror)
        return ErrorClass.NETWORK if unreachable else ErrorClass.ERROR
