"""The program of a Python executor process: `python -m crawlfleet.worker.child PARENT_PID`.

It answers `hello`, then runs one execution after the other, those that were sent ahead in their
order. An executor is imported when its task type is first asked for. Orders are read while the
work runs, so that `cancel` arrives. User code sees an empty stdin, and a stdout that goes to the
log: it cannot break the protocol.
"""

import asyncio
import contextvars
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from crawlfleet import plugins
from crawlfleet.errors import CrawlfleetError, FrontierRefused, PluginError, SinkUnusable
from crawlfleet.model.figures import CrawlFigures
from crawlfleet.model.lock import LONGEST_LEASE_S, SHORTEST_LEASE_S
from crawlfleet.model.output import Segment, Stream
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Executor, Measured, Obey, RunCutOff
from crawlfleet.ports.ledger import Ledger
from crawlfleet.worker import leash, pipe
from crawlfleet.worker.inquiring import Inquirer, ServedLedger, ServedLocks
from crawlfleet.worker.locking import HeldLock
from crawlfleet.worker.printing import Printing
from crawlfleet.worker.waiting import Replies, Waiting

CHUNK_BYTES: Final = 1 << 16
EXIT_PROTOCOL: Final = 76
PROGRESS_INTERVAL_S: Final = 0.1
"""People cannot read faster, and a loop that reports each step must not flood the pipe."""


class ChildContext:
    """The `Context` of one execution."""

    def __init__(self, start: pipe.Start, replies: Replies, *, takes: Sequence[str] = ()) -> None:
        """`takes` names what the node understands beyond the first messages."""
        self.keeps_output = pipe.SEGMENTS in takes
        self.keeps_frontiers = pipe.FRONTIER in takes
        self.task_id = start.task_id
        self.parent_id = start.parent_id
        self.attempt = start.attempt
        self.secrets: Mapping[str, str] = start.secrets
        self.execution_id = self._execution_id = start.execution_id
        self._replies = replies
        self._reported_at = float("-inf")
        self._obey: Obey = _refuse_orders
        self._obeyed: set[int] = set()
        self._kept: dict[tuple[Stream, int], asyncio.Future[pipe.Kept]] = {}
        self._asked: dict[int, asyncio.Future[pipe.Told]] = {}
        self._questions = 0
        self._takes = takes

    @cached_property
    def inquirer(self) -> Inquirer:
        return Inquirer(self._execution_id, self._replies, self._takes)

    @cached_property
    def ledger(self) -> Ledger | None:
        return ServedLedger(self.inquirer) if self.inquirer.is_heard else None

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

    async def figures(self, figures: CrawlFigures) -> None:
        if not self.keeps_output:
            return
        told = msgspec.to_builtins(figures)
        self._replies.send(pipe.Figures(execution_id=self._execution_id, figures=told))

    def obey(self, obey: Obey) -> None:
        self._obey = obey

    def lock(self, name: str, *, lease_s: float = 30.0, wait_s: float | None = None) -> HeldLock:
        if not name or not SHORTEST_LEASE_S <= lease_s <= LONGEST_LEASE_S:
            raise ValueError(
                f"a lock has a name, and a lease of {SHORTEST_LEASE_S:g} to {LONGEST_LEASE_S:g} s"
            )
        number = str(self.inquirer.number())
        locks = ServedLocks(self.inquirer)
        return HeldLock(locks, name, holder=number, lease_s=lease_s, wait_s=wait_s)

    async def keep(self, stream: Stream, segment: Segment, data: bytes) -> None:
        if not self.keeps_output:
            raise SinkUnusable("the node does not take output; install a newer crawlfleet there")
        key = stream, segment.sequence
        answer = self._kept[key] = asyncio.get_running_loop().create_future()
        try:
            self._replies.send(
                pipe.Segment(
                    execution_id=self._execution_id, stream=stream, segment=segment, data=data
                )
            )
            kept = await answer
        finally:
            del self._kept[key]
        if kept.refusal:
            raise (RunCutOff if kept.is_ended else SinkUnusable)(kept.refusal)

    def hear(self, kept: pipe.Kept) -> None:
        """What became of a segment."""
        answer = self._kept.get((kept.stream, kept.sequence))
        if answer is not None and not answer.done():
            answer.set_result(kept)

    async def ask_frontier(self, data: bytes) -> bytes:
        if not self.keeps_frontiers:
            raise FrontierRefused("the node passes nothing on; install a newer crawlfleet there")
        if len(data) > pipe.MAX_ASKED_BYTES:
            raise FrontierRefused(
                f"{len(data):,} bytes are too many to be said at once; {pipe.MAX_ASKED_BYTES:,} "
                "can be. Use `frontier: node`, or fewer links a page (`limits.max_body_bytes`)"
            )
        self._questions += 1
        number = self._questions
        answer: asyncio.Future[pipe.Told] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            for start in range(0, len(data) or 1, pipe.MAX_QUERY_BYTES):
                end = start + pipe.MAX_QUERY_BYTES
                self._replies.send(
                    pipe.Query(
                        execution_id=self._execution_id,
                        number=number,
                        data=data[start:end],
                        more=end < len(data),
                    )
                )
            told = await answer
        finally:
            del self._asked[number]
        if told.refusal:
            raise FrontierRefused(told.refusal)
        return told.data

    def hear_told(self, told: pipe.Told) -> None:
        """What came of something that was asked of the frontier."""
        answer = self._asked.get(told.number)
        if answer is not None and not answer.done():
            answer.set_result(told)

    async def carry_out(self, order: pipe.Obey) -> None:
        """Obey, once, and answer."""
        if order.number in self._obeyed:
            return
        self._obeyed.add(order.number)
        data, error = b"null", ""
        try:
            data = msgspec.json.encode(await self._obey(order.name, order.arguments))
            if len(data) > pipe.MAX_RESULT_BYTES:
                data, error = b"null", pipe.too_large(len(data))
        except Exception as trouble:
            error = _clean(str(trouble)) or type(trouble).__name__
        self._replies.send(
            pipe.Answer(
                execution_id=self._execution_id,
                number=order.number,
                data=msgspec.Raw(data),
                error=error,
            )
        )


async def _refuse_orders(name: str, arguments: Mapping[str, Any]) -> Any:
    raise CrawlfleetError("this work takes no orders while it runs")


class Host:
    """Carries out the orders of the pool."""

    def __init__(self, orders_fd: int, replies: Replies) -> None:
        self._orders_fd = orders_fd
        self._lines = pipe.Lines(pipe.MAX_ORDER_BYTES)
        self._replies = replies
        self._settings = WorkerSettings()
        self._takes: tuple[str, ...] = ()
        self._executors: dict[str, tuple[Executor, msgspec.json.Decoder[Any]]] = {}
        """With what reads their parameters."""
        self._running: tuple[str, asyncio.Task[None]] | None = None
        self._context: ChildContext | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._cancelled = False
        self._entered = False
        """Whether the running task has taken its first step, and can be interrupted."""
        self._waiting = Waiting(replies)
        self.latest_id: str | None = None
        """The execution that was begun last."""

    async def serve(self) -> None:
        """Runs until the pool closes the pipe, which ends the whole process."""
        self._loop = asyncio.get_running_loop()
        self._surroundings = contextvars.copy_context()
        """Of each execution: what one sets in it is not seen by the next."""
        self._loop.add_reader(self._orders_fd, self._read)
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

    def _take(self, order: pipe.AnyOrder) -> None:
        match order:
            case pipe.Hello():
                self._settings = WorkerSettings(
                    python_allow=order.python_allow,
                    python_modules=order.python_modules,
                    allow_private=order.allow_private,
                )
                self._takes = order.takes
                task_types = plugins.names(plugins.EXECUTORS)
                self._replies.send(
                    pipe.Ready(
                        protocol=pipe.PROTOCOL,
                        task_types=task_types,
                        takes=(pipe.ORDERS,),
                        ahead=order.ahead,
                    )
                )
            case pipe.Start():
                if self._running is None:
                    self._begin(order)
                else:
                    self._waiting.add(order)
            case pipe.Cancel() if self._running and self._running[0] == order.execution_id:
                self._cancelled = True
                if self._entered:
                    self._running[1].cancel()
                self._replies.flush()
            case pipe.Cancel():
                if self._waiting.remove(order.execution_id):
                    self._replies.send(pipe.Stopped(execution_id=order.execution_id))
                self._replies.flush()
            case pipe.Kept() if self._concerns(order.execution_id) and self._context:
                self._context.hear(order)
            case pipe.Told() if self._concerns(order.execution_id) and self._context:
                self._context.hear_told(order)
            case pipe.Found() if self._concerns(order.execution_id) and self._context:
                self._context.inquirer.hear(order)
            case pipe.Obey() if self._concerns(order.execution_id) and self._context:
                errand = self._loop.create_task(self._context.carry_out(order))
                self._errands.add(errand)
                errand.add_done_callback(self._errands.discard)

    def _concerns(self, execution_id: str) -> bool:
        return self._running is not None and self._running[0] == execution_id

    def _begin(self, start: pipe.Start) -> None:
        self._cancelled = self._entered = False
        self._context = ChildContext(start, self._replies, takes=self._takes)
        around = self._surroundings.copy()
        task = self._loop.create_task(self._execute(start), context=around)
        self._running = start.execution_id, task

    async def _execute(self, start: pipe.Start) -> None:
        ending: pipe.Reply
        self._entered = True
        try:
            if self._cancelled:
                # A task that is cancelled before its first step never comes here, and would never
                # say that it ended; so it was left alone.
                raise asyncio.CancelledError
            ending = await self._result(start)
        except asyncio.CancelledError as error:
            if self._cancelled:
                ending = pipe.Stopped(execution_id=start.execution_id)
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

    async def _result(self, start: pipe.Start) -> pipe.Reply:
        prepared = self._executors.get(start.task_type)
        if prepared is None:
            self._replies.flush()  # importing it may take a while
            prepared = self._prepare(start.task_type)
        executor, decoder = prepared
        try:
            parameters = decoder.decode(start.parameters)
        except msgspec.ValidationError as error:
            return pipe.Error(
                execution_id=start.execution_id,
                error_class=ErrorClass.INVALID,
                message=f"{start.task_type}: {str(error).replace('`$', '`parameters')}",
            )
        self.latest_id = start.execution_id
        self._replies.send(pipe.Started(execution_id=start.execution_id))
        cpu = time.process_time()
        assert self._context is not None, "made when the order came"
        if start.secrets:
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
            return pipe.Error(execution_id=start.execution_id, message=_clean(message))
        if len(data) > pipe.MAX_RESULT_BYTES:
            return pipe.Error(execution_id=start.execution_id, message=pipe.too_large(len(data)))
        return pipe.Result(execution_id=start.execution_id, data=msgspec.Raw(data), metrics=metrics)

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
    replies = Replies(replies_fd)
    host = Host(orders_fd, replies)
    printing = Printing(lambda: host.latest_id, replies)
    sys.stdout = printing.text(errors="strict")
    sys.stderr = printing.text(errors="backslashreplace")
    serving = host.serve()
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


if __name__ == "__main__":
    main()
