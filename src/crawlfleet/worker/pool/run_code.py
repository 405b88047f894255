"""Runs handed-over code: each execution in a process of its own, which ends with it.

The process of a bundle runs in a cell, which may read the environment and has a scratch folder of
its own. Without a cell it runs only on a node without a sandbox whose owner allows that
(`worker.bundles_unconfined`).
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.node_protocol import Assignment
from crawlfleet.model.wire.services import FOR_EXECUTORS
from crawlfleet.ports.execution import Attempt, Observer
from crawlfleet.ports.sandbox import CellOrder, Provide, Provision, Sandbox
from crawlfleet.worker.code.environments import CannotMake
from crawlfleet.worker.pool import protocol
from crawlfleet.worker.pool.confinement import Unprovided
from crawlfleet.worker.pool.executions import SentExecution, TimeLimitReached
from crawlfleet.worker.pool.process import ExecutorProcess, ProcessGone, ProcessNotStarted
from crawlfleet.worker.pool.results import NO_SECRETS, attempt_of, failed, over_time, start_of
from crawlfleet.worker.pool.workspace import Workspace, Workspaces


class Order(Protocol):
    """Returns the order for the cell of an execution, by its needs; `None` when it needs no cell.
    Raises `Unprovided`."""

    async def __call__(self, assignment: Assignment, provide: Provide) -> CellOrder | None: ...


class CodeRunner:
    """The part of a pool that runs handed-over code."""

    def __init__(
        self,
        settings: WorkerSettings,
        workshop: Workspaces,
        *,
        sandbox: Sandbox | None,
        order: Order,
        at_work: dict[str, ExecutorProcess],
        ready_timeout_s: float,
    ) -> None:
        """Create a runner. It notes in `at_work` which process has which execution, so that orders
        reach it."""
        self._settings = settings
        self._workshop = workshop
        self._sandbox = sandbox
        self._order = order
        self._at_work = at_work
        self._ready_timeout_s = ready_timeout_s
        self._children: set[ExecutorProcess] = set()
        self._is_open = False

    async def run(
        self,
        assignment: Assignment,
        observer: Observer,
        secrets: Mapping[str, str] = NO_SECRETS,
    ) -> Attempt:
        """Run an execution to its end, as `ExecutorPool.run` does."""
        try:
            if not self._is_open:
                self._is_open = True
                await self._workshop.open()
            async with self._workshop.bench(assignment, observer) as bench:
                start = start_of(assignment, secrets)
                return await self._work(bench, assignment, observer, start)
        except CannotMake as failure:
            return failed(failure.error_class, str(failure), failure.details)
        except OSError as error:
            return failed(
                ErrorClass.ERROR,
                f"this node cannot make a place for it: {error}; make room, or mend it",
            )

    async def close(self) -> None:
        """Stop all processes, by force if necessary."""
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.retire(self._settings.stop_grace_s))

    async def _work(
        self, bench: Workspace, assignment: Assignment, observer: Observer, start: protocol.Start
    ) -> Attempt:
        try:
            child = await self._start(bench, assignment)
        except Unprovided as error:
            return failed(error.error_class, str(error))
        except ProcessNotStarted as failure:
            return failed(ErrorClass.CRASH, str(failure), failure.output)
        self._children.add(child)
        try:
            turn = child.begin(start, observer, assignment.timeout_s)
            self._at_work[turn.id] = child
            return await self._listen(child, turn, assignment)
        finally:
            self._at_work.pop(assignment.execution_id, None)
            self._children.discard(child)
            await child.end()

    async def _start(self, bench: Workspace, assignment: Assignment) -> ExecutorProcess:
        """Start a process for the code, in a cell if it needs one. Raises `Unprovided` and
        `ProcessNotStarted`."""

        async def provide(_: Assignment) -> Provision:
            return Provision(
                command=bench.command,
                variables=bench.of_code,
                readable=tuple(map(str, bench.readable)),
            )

        kind, hello = assignment.task_type, protocol.Hello(takes=FOR_EXECUTORS, ahead=0)
        order = await self._order(assignment, provide)
        if order is not None:
            if self._sandbox is None:
                raise Unprovided("this node has no sandbox, but the work needs a cell")
            return await ExecutorProcess.confine(
                kind, order, self._sandbox, hello, self._ready_timeout_s
            )
        if self._sandbox is not None and assignment.bundle is not None:
            raise Unprovided("the code of a bundle runs in a cell, but none was ordered")
        return await ExecutorProcess.spawn(
            kind,
            bench.command,
            hello,
            self._ready_timeout_s,
            variables={**bench.variables, **bench.of_code},
            folder=bench.scratch,
        )

    async def _listen(
        self, child: ExecutorProcess, turn: SentExecution, assignment: Assignment
    ) -> Attempt:
        try:
            reply = await turn.ended
            child.kill()  # what it did after its figures were read would be in none
            return attempt_of(reply, turn.took_s, child.figures)
        except ProcessGone as departure:
            end, output = await child.exit_report()
            message = str(departure) or f"the process of the code {end} during the work"
            return failed(departure.error_class, message, output)
        except TimeLimitReached:
            await child.halt(turn, self._settings.stop_grace_s)
            return over_time(assignment)
        except asyncio.CancelledError:
            await child.halt(turn, self._settings.stop_grace_s)
            raise
