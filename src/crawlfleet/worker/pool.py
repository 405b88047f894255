"""Runs assignments in pooled child processes, apart from the agent.

A process is started when it is first needed and kept for the next execution; a stop is an order
first and SIGKILL after the grace, so that it always works. Programs in other languages
(`worker.commands`) speak the same protocol and live in the same pool.
"""

import asyncio
import time
from typing import Final

from crawlfleet import plugins, telemetry
from crawlfleet.model.messages import Assignment, ExecutionOrder
from crawlfleet.model.output import Stream
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.ports.execution import Attempt, Observer
from crawlfleet.worker import pipe
from crawlfleet.worker.process import Child, Departed, FailedStart

PYTHON: Final = ""
"""The kind of process that runs all executors of installed packages."""
RECYCLE_AFTER: Final = 10_000
"""Executions of one process; bounds what leaks of user code can add up to."""
READY_TIMEOUT_S: Final = 20.0


class ProcessPool:
    """An `ExecutorPool` of at most `settings.slots` processes; more calls of `run` wait."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        recycle_after: int = RECYCLE_AFTER,
        ready_timeout_s: float = READY_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._recycle_after = recycle_after
        self._ready_timeout_s = ready_timeout_s
        self._task_types = tuple(sorted({*plugins.names(plugins.EXECUTORS), *settings.commands}))
        self._hello = pipe.hello_of(settings)
        self._slots = asyncio.Semaphore(settings.slots)
        self._taken = 0
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._at_work: dict[str, Child] = {}
        self._closed = False
        self._log = telemetry.logger(telemetry.Component.WORKER)

    @property
    def task_types(self) -> tuple[str, ...]:
        return self._task_types

    async def prestart(self) -> None:
        """Start one process ahead of the first work; raises nothing, the first run would tell."""
        async with self._slots:
            self._taken += 1
            try:
                child, _ = await self._acquire(PYTHON)
                await self._release(child)
            except FailedStart as failure:
                self._log.warning("executor_prestart_failed", reason=str(failure))
            finally:
                self._taken -= 1

    async def run(self, assignment: Assignment, observer: Observer) -> Attempt:
        if assignment.task_type not in self._task_types:
            known = ", ".join(self._task_types)
            return _failed(
                ErrorClass.INVALID,
                f"this node has no executor for {assignment.task_type!r}, only for {known};"
                " install the package that offers it, or set `worker.commands`",
            )
        async with self._slots:
            self._taken += 1
            try:
                return await self._attempt(assignment, _Witness(observer))
            finally:
                self._taken -= 1

    def order(self, order: ExecutionOrder) -> bool:
        child = self._at_work.get(order.execution_id)
        if child is None or not child.takes_orders:
            return False
        return child.tell(
            pipe.Obey(
                execution_id=order.execution_id,
                number=order.number,
                name=order.name,
                arguments=order.arguments,
            )
        )

    def confirm(self, execution_id: str, stream: Stream, sequence: int, refusal: str = "") -> None:
        child = self._at_work.get(execution_id)
        if child is not None:
            child.tell(
                pipe.Kept(
                    execution_id=execution_id,
                    stream=stream,
                    sequence=sequence,
                    refusal=refusal,
                )
            )

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.retire(self._settings.stop_grace_s))
        self._children.clear()

    async def _attempt(self, assignment: Assignment, witness: "_Witness") -> Attempt:
        """Runs it, once more when an idle process turned out to be dead before the work began."""
        kind = assignment.task_type if assignment.task_type in self._settings.commands else PYTHON
        while True:
            try:
                child, warm = await self._acquire(kind)
            except FailedStart as failure:
                return _failed(ErrorClass.CRASH, str(failure), failure.output)
            try:
                return await self._converse(child, assignment, witness)
            except Departed as departure:
                self._children.discard(child)
                end, output = await child.obituary()
                if self._closed:
                    return _failed(ErrorClass.CRASH, "the worker was shut down during the work")
                if witness.has_begun or not warm or str(departure):
                    message = str(departure) or f"the executor process {end} during the work"
                    return _failed(departure.error_class, message, output)

    async def _converse(self, child: Child, assignment: Assignment, observer: Observer) -> Attempt:
        start = pipe.Start(
            execution_id=assignment.execution_id,
            task_id=assignment.task_id,
            attempt=assignment.attempt,
            task_type=assignment.task_type,
            timeout_s=assignment.timeout_s,
            allocation=assignment.allocation,
            parameters=assignment.parameters,
        )
        begin = time.monotonic()
        self._at_work[assignment.execution_id] = child
        try:
            async with asyncio.timeout(assignment.timeout_s) as limit:
                reply = await child.execute(start, observer)
        except Departed:
            raise
        except BaseException as error:
            await self._halt(child)
            if limit.expired() and isinstance(error, TimeoutError):
                return _failed(
                    ErrorClass.TIMEOUT,
                    f"stopped after {assignment.timeout_s:g} s, the time limit of the task",
                )
            raise
        finally:
            self._at_work.pop(assignment.execution_id, None)
        elapsed_s = time.monotonic() - begin
        await self._release(child)
        return _attempt_of(reply, elapsed_s)

    async def _halt(self, child: Child) -> None:
        clean = False
        try:
            clean = await child.halt(self._settings.stop_grace_s)
        finally:
            if clean:
                await self._release(child)
            else:
                self._children.discard(child)
                await child.end()

    async def _acquire(self, kind: str) -> tuple[Child, bool]:
        """An idle process of the kind, or a new one; and whether it had been idle.

        Raises `FailedStart`.
        """
        while fitting := [child for child in self._idle if child.kind == kind]:
            child = fitting[-1]  # the one used last, so that the others can be given up
            self._idle.remove(child)
            if not child.departed:
                return child, True
            await self._dismiss(child)
        if self._closed:
            raise FailedStart("the worker is shutting down")
        if len(self._idle) + self._taken > self._settings.slots:  # idle ones of other kinds
            await self._dismiss(self._idle.pop(0))
        began = time.monotonic()
        child = await Child.spawn(
            kind, self._settings.commands.get(kind, ()), self._hello, self._ready_timeout_s
        )
        self._log.debug("executor_ready", kind=kind, seconds=time.monotonic() - began)
        self._children.add(child)
        if self._closed:
            await self._dismiss(child)
            raise FailedStart("the worker is shutting down")
        return child, False

    async def _release(self, child: Child) -> None:
        if child.executions >= self._recycle_after or self._closed:
            await self._dismiss(child)
        else:
            self._idle.append(child)

    async def _dismiss(self, child: Child) -> None:
        self._children.discard(child)
        await child.retire(self._settings.stop_grace_s)


class _Witness:
    """Passes on what is heard, and knows whether the work had begun."""

    __slots__ = ("_observer", "answer", "figures", "has_begun", "log", "progress", "segment")

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.log = observer.log
        self.progress = observer.progress
        self.figures = observer.figures
        self.answer = observer.answer
        self.segment = observer.segment
        self.has_begun = False

    def started(self) -> None:
        self.has_begun = True
        self._observer.started()


def _attempt_of(reply: pipe.Result | pipe.Error, elapsed_s: float) -> Attempt:
    match reply:
        case pipe.Result(data=data) if (size := memoryview(data).nbytes) > pipe.MAX_RESULT_BYTES:
            return _failed(ErrorClass.ERROR, pipe.too_large(size))
        case pipe.Result(data=data, metrics=metrics):
            return Attempt(data=data, metrics={**metrics, "elapsed_s": elapsed_s})
        case pipe.Error(error_class=error_class, message=message, details=details):
            return _failed(error_class, message, details)


def _failed(error_class: ErrorClass, message: str, details: str = "") -> Attempt:
    error = TaskError(
        error_class=error_class,
        message=message[: pipe.MAX_MESSAGE_CHARS],
        details=details[-pipe.MAX_DETAILS_CHARS :],
    )
    return Attempt(error=error)
