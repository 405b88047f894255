"""The quality of tasks' items: they are measured before a task completes, and people accept or
reject the verdict.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.quality import figures
from crawlfleet.core.quality.profile import Fold, items_of_lines, items_of_result
from crawlfleet.core.quality.recording import QualityRecord, decided, undecidable
from crawlfleet.core.quality.verdict import Baseline, baseline, judge, unjudged
from crawlfleet.errors import Conflict, StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.ids import MEASURED, make_id
from crawlfleet.model.quality import Decision, Expectations, MeasuredRun, Profile, series_key
from crawlfleet.model.task import Task
from crawlfleet.model.wire.node_protocol import Report, ReportKind
from crawlfleet.ports.kernel_tables import measured_runs_in, measured_runs_of, newest_of_series
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
SHORT_WAIT_S: Final = 1.0
"""Maximum wait for the measurements of one batch of reports."""
MAX_WAIT_S: Final = 20.0
"""Maximum wait for nodes that repeat whole batches: their requests time out after 30 s."""
MAX_READ: Final = 100
"""Maximum number of earlier runs of a series to read: those that were not good are skipped."""

APART_BYTES: Final = 50_000
"""Size of items from which they are processed in a thread, so as not to block the loop."""
T = TypeVar("T")
Results = Callable[[], AsyncIterator[msgspec.Raw]]
"""Reads the data of the task's result, or of the results of all its shards."""


class Measurement:
    """Measures the items of tasks and judges them by the tasks' expectations."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        output: OutputStore | None = None,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._output = output
        self._turn = asyncio.Lock()
        self._under_way: dict[str, asyncio.Task[QualityRecord]] = {}
        """Measurements by execution, under way or not committed yet."""

    async def close(self) -> None:
        """Stop measuring; a measurement that was not committed is repeated later."""
        under_way = [*self._under_way.values()]
        self._under_way.clear()
        for each in under_way:
            each.cancel()
        if under_way:
            await asyncio.wait(under_way)

    async def reported(
        self, node_id: str, reports: Iterable[Report], *, wait_s: float
    ) -> Mapping[str, QualityRecord]:
        """Return the measurements of the executions that these reports say have succeeded, as far
        as their tasks have expectations. A measurement that takes longer than `wait_s`, or fails
        for now, is missing: it goes on or is begun anew, and a later call returns it.
        """
        wanted: dict[str, asyncio.Task[QualityRecord]] = {}
        for report in reports:
            if report.kind is not ReportKind.SUCCEEDED:
                continue
            lease = self._state.leases.get(report.execution_id)
            if lease is None or lease.task.expectations is None:
                continue
            execution = lease.execution
            if lease.owns and (execution.node_id, execution.token) == (node_id, report.token):
                wanted[report.execution_id] = self._begun(lease.task, report)
        if not wanted:
            return {}
        await asyncio.wait([*wanted.values()], timeout=wait_s)
        return {id: each.result() for id, each in wanted.items() if _is_measured(id, each)}

    def forget(self, execution_ids: Collection[str]) -> None:
        """Drop the measurements of these executions: they are committed, or of no use."""
        for id in execution_ids:
            self._under_way.pop(id, None)

    def _begun(self, task: Task, report: Report) -> asyncio.Task[QualityRecord]:
        found = self._under_way.get(report.execution_id)
        if found is not None and not (found.done() and (found.cancelled() or found.exception())):
            return found
        leases = self._state.leases
        for gone in [id for id in self._under_way if id not in leases]:
            del self._under_way[gone]
        data = report.data.copy()

        async def result() -> AsyncIterator[msgspec.Raw]:
            yield data

        begun = asyncio.create_task(self.judge(task, report.metrics, result), name="measure")
        self._under_way[report.execution_id] = begun
        return begun

    async def judge(
        self, task: Task, metrics: Mapping[str, float], results: Results
    ) -> QualityRecord:
        """Measure and judge the items of a task that is about to complete."""
        expected = task.expectations
        assert expected is not None, "only tasks that expect something are measured"
        async with self._turn:
            profile = await self._profile(task, expected, metrics, results)
        earlier = await self._baseline(task.project_id, expected)
        try:
            judgement = judge(expected, profile, earlier)
        except Exception as error:
            log.exception("defect: items are not judged", task_id=task.id)
            judgement = unjudged(f"they cannot be judged: {error!r}")
        log.info("measured", task_id=task.id, verdict=str(judgement.verdict), items=profile.items)
        return QualityRecord(
            id=make_id(MEASURED, self._system.now(), self._system.entropy),
            judgement=judgement,
            profile=profile,
            on_drift=expected.on_drift,
            series=expected.series or "",
        )

    async def _baseline(self, project_id: str, expected: Expectations) -> Baseline:
        if expected.series is None or expected.drift is None:
            return Baseline()
        key = series_key(project_id, expected.series)
        earlier = await self._store.find(measured_runs_in(key, after=None, limit=MAX_READ))
        return baseline(earlier, expected.drift.runs)

    async def _profile(
        self, task: Task, expected: Expectations, metrics: Mapping[str, float], results: Results
    ) -> Profile:
        pages, errors = None, None
        try:
            pages, errors = figures.pages_in(metrics), figures.errors_in(metrics)
            fold = Fold(expected)
            if await self._has_output(task.id):
                await self._fold_output(task.id, fold)
            elif not await self._fold_results(task, fold, results):
                return figures.unseen(expected, metrics)
            return fold.profile(pages=pages, errors=errors)
        except StoreUnavailable:
            raise
        except Exception as error:
            # Items come from nodes, and may be anything: a task ends whatever they are.
            log.warning("items are not measured", task_id=task.id, error=repr(error))
            return Profile(pages=pages, errors=errors, trouble=f"they cannot be read: {error}")

    async def _has_output(self, task_id: str) -> bool:
        if self._output is None:
            return False
        return await self._output.summary(task_id, "items", completed=True) is not None

    async def _fold_output(self, task_id: str, fold: Fold) -> None:
        assert self._output is not None, "it has output"
        pieces = self._output.read(task_id, "items", completed=True)
        async with aclosing(pieces):
            async for piece in pieces:
                await _apart(len(piece), _take_lines, fold, piece)

    async def _fold_results(self, task: Task, fold: Fold, results: Results) -> bool:
        """Read the items from the results; returns `False` if the results do not hold them."""
        async for raw in results():
            size = len(memoryview(raw))
            if not await _apart(size, _take_result, fold, task.task_type, raw):
                return False
        return True


def _is_measured(execution_id: str, each: asyncio.Task[QualityRecord]) -> bool:
    if not each.done() or each.cancelled():
        return False
    if (error := each.exception()) is not None:
        log.warning("measuring is begun anew", execution_id=execution_id, error=repr(error))
    return error is None


async def _apart(size: int, work: Callable[..., T], *arguments: Any) -> T:
    """Call `work`, in a thread if `size` is large."""
    if size <= APART_BYTES:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def _take_lines(fold: Fold, lines: bytes) -> None:
    fold.take(items_of_lines(lines))


def _take_result(fold: Fold, task_type: str, raw: msgspec.Raw) -> bool:
    data: Any = msgspec.json.decode(raw)
    if not figures.holds_items(task_type, data):
        return False
    fold.take(items_of_result(data))
    return True


class Quality:
    """Reads the history of series, and records decisions about their runs."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        output: OutputStore | None = None,
    ) -> None:
        self.measuring = Measurement(store=store, state=state, system=system, output=output)
        self._store = store
        self._state = state
        self._system = system

    async def series(
        self, *, project_id: str | None, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """Return the newest run of each series, in order of project and name."""
        return await self._store.find(
            newest_of_series(project_id=project_id, after=after, limit=limit)
        )

    async def runs(
        self, project_id: str, series: str, *, after: str | None, limit: int
    ) -> list[MeasuredRun]:
        """Return the runs of a series, newest first."""
        key = series_key(project_id, series)
        return await self._store.find(measured_runs_in(key, after=after, limit=limit))

    async def of_task(self, task_id: str) -> list[MeasuredRun]:
        """Return the measured runs of a task, newest first: one for each time that it completed."""
        return (await self._store.find(measured_runs_of([task_id])))[::-1]

    async def decide(
        self, task_id: str, decision: Decision, *, by: str, reason: str = ""
    ) -> MeasuredRun:
        """Accept or reject the items of a task; repeating a decision changes nothing. Raises
        `Conflict` when there is nothing to decide, or the decision was different before.
        """

        async def decide() -> tuple[MeasuredRun, Change | None]:
            run = await self._newest(task_id)
            change = decided(run, decision, now=self._system.now(), by=by, reason=reason)
            if change is None:
                return run, None
            if why := undecidable(run):
                raise Conflict(why)
            return change.of(MeasuredRun)[0], change

        return await self._state.decide(task_id, decide)

    async def _newest(self, task_id: str) -> MeasuredRun:
        found = await self.of_task(task_id)
        if not found:
            raise Conflict(
                f"nothing was measured of {task_id}: it has not ended, or has no `expectations`"
            )
        return found[0]
