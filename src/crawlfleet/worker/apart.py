"""Runs code that people handed over: each execution in a process of its own, which ends with it."""

import asyncio

from crawlfleet.model.messages import Assignment
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Attempt, Observer
from crawlfleet.worker import pipe
from crawlfleet.worker.attempts import attempt_of, failed, over_time, start_of
from crawlfleet.worker.environments import CannotMake
from crawlfleet.worker.process import Child, Departed, FailedStart
from crawlfleet.worker.turns import OverTime, Turn
from crawlfleet.worker.workshop import Bench, Workshop


class Apart:
    """The part of a pool that runs what is not of this program."""

    def __init__(
        self,
        settings: WorkerSettings,
        workshop: Workshop,
        *,
        at_work: dict[str, Child],
        ready_timeout_s: float,
    ) -> None:
        """`at_work` is told which process has which execution, so that orders reach it."""
        self._settings = settings
        self._workshop = workshop
        self._at_work = at_work
        self._ready_timeout_s = ready_timeout_s
        self._children: set[Child] = set()
        self._is_open = False

    async def run(self, assignment: Assignment, observer: Observer) -> Attempt:
        """Run it to its end, as `ExecutorPool.run` does."""
        try:
            if not self._is_open:
                self._is_open = True
                await self._workshop.open()
            async with self._workshop.bench(assignment, observer) as bench:
                return await self._work(bench, assignment, observer)
        except CannotMake as failure:
            return failed(failure.error_class, str(failure), failure.details)
        except OSError as error:
            return failed(
                ErrorClass.ERROR,
                f"this node cannot make a place for it: {error}; make room, or mend it",
            )

    async def close(self) -> None:
        """Stop all, by force if need be."""
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.retire(self._settings.stop_grace_s))

    async def _work(self, bench: Bench, assignment: Assignment, observer: Observer) -> Attempt:
        try:
            child = await Child.spawn(
                assignment.task_type,
                bench.command,
                pipe.Hello(takes=(pipe.SEGMENTS,), ahead=0),
                self._ready_timeout_s,
                variables=bench.variables,
                folder=bench.scratch,
            )
        except FailedStart as failure:
            return failed(ErrorClass.CRASH, str(failure), failure.output)
        self._children.add(child)
        try:
            turn = child.begin(start_of(assignment), observer, assignment.timeout_s)
            self._at_work[turn.id] = child
            return await self._listen(child, turn, assignment)
        finally:
            self._at_work.pop(assignment.execution_id, None)
            self._children.discard(child)
            await child.end()

    async def _listen(self, child: Child, turn: Turn, assignment: Assignment) -> Attempt:
        try:
            return attempt_of(await turn.ended, turn.took_s)
        except Departed as departure:
            end, output = await child.obituary()
            message = str(departure) or f"the process of the code {end} during the work"
            return failed(departure.error_class, message, output)
        except OverTime:
            await child.halt(turn, self._settings.stop_grace_s)
            return over_time(assignment)
        except asyncio.CancelledError:
            await child.halt(turn, self._settings.stop_grace_s)
            raise
