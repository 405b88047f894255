"""Crawls: their output, their figures, and the commands to those that run.

Output arrives in segments, only from the execution that holds the task's lease: any other is
refused, however late it sends. A segment is durable before the node gets the answer. Figures are
the frontier's counts where this master knows them, else the last report of the executions; the
newest are kept in memory, the final ones beside the output.
"""

import asyncio
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from crawlfleet.control.leases.execution_orders import ExecutionOrders
from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.crawls.figures import counted, together
from crawlfleet.core.crawls.kept_output import CRAWL, why_missing
from crawlfleet.core.crawls.shared_crawl import crawl_of
from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.errors import (
    Conflict,
    NotFound,
    OutputUnavailable,
    RunEnded,
    StoreUnavailable,
)
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.views import UrlExplanation
from crawlfleet.model.change import Change
from crawlfleet.model.crawl.figures import CrawlFigures, ToldFigures
from crawlfleet.model.event import Event
from crawlfleet.model.task import Execution, Shard, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import NoteBatch, NoteReply
from crawlfleet.model.wire.output import MAX_SEGMENT_BYTES, SegmentReply, SegmentUpload
from crawlfleet.model.wire.services import ServiceResponse, answered, refused
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import Store
from crawlfleet.ports.store_archive import RESTORED_STORE
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MAX_RESTORES: Final = 1000
SWEEP_EVERY_S: Final = 600.0
PORTION: Final = 500
_figures: Final = msgspec.json.Decoder(CrawlFigures)


class CrawlVerb(StrEnum):
    """Commands that a user can give to a running crawl."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    """End it with what it has."""


_HAPPENED: Final = {
    CrawlVerb.PAUSE: "crawl.paused",
    CrawlVerb.RESUME: "crawl.resumed",
    CrawlVerb.STOP: "crawl.stopped",
}


class _Told(NamedTuple):
    """The last figures that an execution reported."""

    token: int
    """Token of the execution; later attempts at the task have greater ones."""
    figures: ToldFigures


class Crawls:
    """Takes the output and the figures of crawls, shows them, and passes on orders."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        tasks: Tasks,
        execution_orders: ExecutionOrders,
        frontiers: Frontiers,
        output: OutputStore | None,
    ) -> None:
        self._frontiers = frontiers
        self._store = store
        self._state = state
        self._system = system
        self._tasks = tasks
        self._execution_orders = execution_orders
        self._output = output
        self._told: dict[str, dict[str, _Told]] = {}
        """Last reports by crawl id, then by id of the task: that of the crawl, or those of its
        shards. A report of a later attempt replaces that of an earlier one."""

    @property
    def output(self) -> OutputStore:
        """The output store; raises `OutputUnavailable` where this master has none."""
        if self._output is None:
            raise OutputUnavailable("this master keeps no output of crawls; name a `sinks` entry")
        return self._output

    async def store_segment(self, call: ServiceCall) -> ServiceResponse:
        """Store a segment of an execution's output durably; the same again changes nothing."""
        upload: SegmentUpload = call.payload
        if len(call.data) > MAX_SEGMENT_BYTES:
            return refused(
                f"a segment may have {MAX_SEGMENT_BYTES:,} bytes, this one has {len(call.data):,}"
            )
        execution = call.lease.execution
        try:
            await self.output.append(
                crawl_of(call.lease.task),
                execution.token,
                execution.id,
                upload.stream,
                upload.segment,
                call.data,
            )
        except RunEnded as error:
            ended = answered(SegmentReply(is_ended=True))
            return msgspec.structs.replace(ended, refusal=str(error))
        except OutputUnavailable as error:
            log.error("output not kept", task_id=execution.task_id, error=str(error))
            return refused(str(error), may_retry=True)
        return answered(SegmentReply())

    async def hear(self, batch: NoteBatch, reply: NoteReply) -> None:
        """Take the figures, and the answers to commands, from accepted notes."""
        for note in batch.notes:
            if note.execution_id in reply.stale:
                continue
            for answer in note.answers:
                self._execution_orders.answer(note.execution_id, answer)
            if note.figures is not None:
                await self._take_figures(note.execution_id, note.figures)

    async def get(self, task_id: str) -> Task:
        """The task of a crawl, or of code that may hand over items; `NotFound` for others, too."""
        task = await self._tasks.get(task_id)
        if task.task_type != CRAWL and task.bundle is None:
            raise NotFound("crawl", task_id)
        return task

    def live_figures(self, task: Task) -> CrawlFigures | None:
        """Return the figures of a crawl as this master knows them, with its frontier's counts;
        `None` if it knows none. For a shard, return its own last report."""
        crawl_id = crawl_of(task)
        parts = self._told.get(crawl_id, {})
        if crawl_id != task.id:
            return together([parts[task.id].figures]) if task.id in parts else None
        figures = self._committed(task, together([each.figures for each in parts.values()]))
        if figures is None or figures.is_final or self._living(task):
            return figures
        waiting = figures.waiting + figures.in_flight
        return replace(figures, rate_per_s=0.0, is_paused=False, waiting=waiting, in_flight=0)

    def _committed(self, crawl: Task, told: CrawlFigures | None) -> CrawlFigures | None:
        """Return the reported figures of a crawl, with the counts of its frontier where they are
        known."""
        counts = self._frontiers.last_counts(crawl.id)
        if counts is None:
            return told
        told = told or CrawlFigures(at=self._system.now())
        figures = counted(told, counts)
        # For the frontier every request of a spider that has ended is a page, or none.
        return figures if crawl.task_type == CRAWL else replace(figures, failed=told.failed)

    def told_by(self, task: Task, part: Shard) -> ToldFigures | None:
        """Return the last figures that one task of a crawl reported to this master; `None` without
        any."""
        told = self._told.get(crawl_of(task), {}).get(part.id)
        return None if told is None else told.figures

    def is_running(self, task: Task) -> bool:
        """Return true if an execution of the crawl runs now."""
        return bool(self._living(task))

    def is_held(self, task: Task) -> bool:
        """Return true if all executions of the crawl that run now are paused."""
        living = self._living(task)
        return bool(living) and all(lease.task.is_held for lease in living)

    async def figures(self, task: Task) -> CrawlFigures | None:
        """Return the newest figures of a crawl, running or not; `None` if there are none."""
        live = self.live_figures(task)
        if live is not None or self._output is None:
            return live
        try:
            kept = await self._output.figures(task.id)
            return None if kept is None else _figures.decode(kept)
        except (OutputUnavailable, msgspec.DecodeError):
            return None

    async def why_missing(self, task: Task) -> str | None:
        """Return the reason why a crawl has no output although it should, with a remedy; `None` if
        none is missing. Call it only for a crawl without stored output."""
        restored = await self._store.events(after=0, limit=MAX_RESTORES, subject=RESTORED_STORE)
        attempts = await self._store.executions(task.id)
        return why_missing(
            task,
            items=sum(each.metrics.get("items", 0.0) for each in attempts),
            restored_at=restored[-1].at if restored else None,
        )

    async def explain(self, task: Task, url: str) -> UrlExplanation:
        """Ask a running crawl about a URL; raises `Conflict` when it does not run."""
        told = await self._ask(task, "explain", {"url": url})
        try:
            return msgspec.json.decode(told, type=UrlExplanation)
        except msgspec.DecodeError as error:
            raise Conflict(f"the node of {task.id} answered what cannot be read: {error}") from None

    async def order(self, task: Task, verb: CrawlVerb, *, by: str) -> None:
        """Send a command to a running crawl; raises `Conflict` when it does not run."""
        living = self._living(task)
        if not living:
            raise _does_not_run(task)
        for lease in living:
            await self._execution_orders.ask(lease.execution, str(verb))
            if verb is not CrawlVerb.STOP:
                # The executor's own word comes a second later.
                known = self._told.get(crawl_of(lease.task), {}).get(lease.task.id)
                told = known.figures if known else ToldFigures(at=self._system.now())
                told = replace(told, is_paused=verb is CrawlVerb.PAUSE)
                self._remember(lease.task, lease.execution, told)
        await self._record(task, verb, by)

    async def _record(self, task: Task, verb: CrawlVerb, by: str) -> None:
        """Record a command: a pause outlives the nodes that received it."""

        async def decide() -> tuple[None, Change]:
            now, own = self._system.now(), [lease.task for lease in self._living(task)]
            changed = [
                each
                for each in (attempts.held(each, verb is CrawlVerb.PAUSE, now=now) for each in own)
                if each is not None and verb is not CrawlVerb.STOP
            ]
            event = Event(
                kind=_HAPPENED[verb],
                subject=task.id,
                at=now,
                cause=f"ordered by {by}",
                details={"execution_id": task.execution_id, "tasks": [each.id for each in own]},
                project_id=task.project_id,
            )
            return None, Change(tasks=tuple(changed), events=(event,))

        await self._state.decide(task.id, decide)

    def _living(self, task: Task) -> list[Lease]:
        """Return the leases of the executions that run for a crawl: its own, or those of its
        shards."""
        if task.is_parent:
            leases = [
                each for each in self._state.leases.values() if each.task.parent_id == task.id
            ]
        else:
            leases = [lease] if (lease := self._state.lease_of(task)) else []
        return [lease for lease in leases if lease.task.status is TaskStatus.PROCESSING]

    async def _ask(
        self, task: Task, name: str, arguments: dict[str, Any] | None = None
    ) -> msgspec.Raw:
        living = self._living(task)
        if not living:
            raise _does_not_run(task)
        return await self._execution_orders.ask(living[0].execution, name, arguments)

    async def sweep(self) -> int:
        """Remove the output and frontiers of removed tasks, and superseded output of completed
        ones; return the number of removed tasks."""
        await self._sweep_frontiers()
        if self._output is None:
            return 0
        kept = await self._output.tasks()
        gone = 0
        for begin in range(0, len(kept), PORTION):
            portion = kept[begin : begin + PORTION]
            known = await self._store.task_states(portion)
            for task_id in portion:
                try:
                    gone += await self._tidy(self._output, task_id, known.get(task_id))
                except OutputUnavailable as error:  # of this one; the others can be tidied
                    log.warning("output is not swept", task_id=task_id, error=str(error))
        return gone

    async def _sweep_frontiers(self) -> None:
        kept = await self._frontiers.tasks()
        for begin in range(0, len(kept), PORTION):
            portion = kept[begin : begin + PORTION]
            known = await self._store.task_states(portion)
            for task_id in portion:
                if task_id in known:
                    continue
                try:
                    await self._frontiers.remove(task_id)
                except StoreUnavailable as error:  # of this one; the others can be removed
                    log.warning("frontier is not removed", task_id=task_id, error=str(error))

    async def _tidy(self, output: OutputStore, task_id: str, status: TaskStatus | None) -> bool:
        """Remove the output of a removed task, or discard superseded output of a completed one;
        true if it was removed."""
        if status is None:
            await output.remove(task_id)
        elif status is TaskStatus.COMPLETED:
            # After a failure the best there is may lie in any attempt.
            await output.settle(task_id)
        return status is None

    async def run(self) -> None:
        """Sweep now and then, for as long as this master leads."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                if gone := await self.sweep():
                    log.info("output of removed crawls is gone", crawls=gone)
            except (StoreUnavailable, OutputUnavailable) as error:
                log.warning("output is not swept", error=str(error))

    async def _take_figures(self, execution_id: str, told: dict[str, Any]) -> None:
        try:
            figures = msgspec.convert(told, ToldFigures)
        except msgspec.ValidationError as error:
            log.debug("figures of a crawl cannot be read", error=str(error))
            return
        known = await self._execution(execution_id)
        if known is None:
            return
        task, execution = known
        if not self._remember(task, execution, figures):
            return
        if figures.is_final and self._output is not None:
            await self._keep_figures(self._output, task)

    async def _execution(self, execution_id: str) -> tuple[Task, Execution] | None:
        """Return an execution and its task, `None` if unknown. The last report may come after the
        end; then both are read from the store."""
        lease = self._state.leases.get(execution_id)
        if lease is not None:
            return lease.task, lease.execution
        execution = await self._store.execution(execution_id)
        if execution is None:
            return None
        tasks = await self._store.tasks([execution.task_id])
        return (tasks[0], execution) if tasks else None

    def _remember(self, task: Task, execution: Execution, figures: ToldFigures) -> bool:
        """Keep a report, unless a later attempt at the same task has reported; false if it was
        dropped."""
        parts = self._told.pop(crawl_of(task), {})
        known = parts.get(task.id)
        is_newer = known is None or known.token <= execution.token
        if is_newer:
            parts[task.id] = _Told(execution.token, figures)
        self._told[crawl_of(task)] = parts
        if len(self._told) > 2 * len(self._state.leases) + PORTION:
            living = {crawl_of(lease.task) for lease in self._state.leases.values()}
            self._told = {id: each for id, each in self._told.items() if id in living}
        return is_newer

    async def _keep_figures(self, output: OutputStore, task: Task) -> None:
        """Store the final figures of a crawl; for a shard, those of the whole crawl."""
        crawl = task if task.parent_id is None else await self._tasks.get(task.parent_id)
        try:
            await output.keep_figures(crawl.id, msgspec.json.encode(self.live_figures(crawl)))
        except OutputUnavailable as error:
            log.warning("the figures of a crawl are not kept", error=str(error))


def _does_not_run(task: Task) -> Conflict:
    return Conflict(f"{task.id} is {task.status}, and only a crawl that runs can do this")
