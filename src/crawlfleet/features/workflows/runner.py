"""Continues the runs of workflows while this master leads.

The runner receives every event at least once and in order from the outbox: the end of a task, a new
run, a command to cancel one. `features.workflows.rules.engine` decides what follows. The decision
is one change of the run, its steps and the tasks that these begin, under the leader's epoch and the
run's version, with task ids that follow from the step. So a step begins once, even if a master dies
or an event is repeated; and a run that a user changes at the same moment is read again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from crawlfleet.control.quotas import QuotaIntake
from crawlfleet.control.state.fleet_state import MAX_DECISIONS, FleetState
from crawlfleet.control.store_pause import StorePause
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.quality.acceptance import GONE, Held, Rejected, concerned, held_by
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import LeadershipLost, StoreUnavailable
from crawlfleet.features.workflows.model import LIVE_RUN, RunStatus, StepStatus
from crawlfleet.features.workflows.plan_cache import PlanCache
from crawlfleet.features.workflows.rules.engine import StartStep, StepDecision
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope
from crawlfleet.features.workflows.rules.plan import PlannedStep
from crawlfleet.features.workflows.rules.requests import request_of, task_id
from crawlfleet.features.workflows.run_state import RunState
from crawlfleet.features.workflows.table import RUNS, live_runs, steps_of
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.quality import Decision as Said
from crawlfleet.model.task import TERMINAL, StepRef, TaskStatus
from crawlfleet.ports.kernel_tables import measured_runs_of
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
STEPS_BATCH: Final = 200
MAX_CHANGE_WEIGHT: Final = 2_000
"""Number of rows after which a commit is made; a single step may have more."""
RUNS_BATCH: Final = 100
STATES_BATCH: Final = 5_000
KEPT: Final = 200
"""Maximum number of runs in memory."""
BREATHE_EVERY: Final = 200
_STEERED: Final = frozenset({f"run.{status}" for status in LIVE_RUN})
_DECIDED: Final = frozenset({f"task.{Said.ACCEPTED}", f"task.{Said.REJECTED}"})
"""Kinds of events about a user's decision on a held task."""


_OF_VALUES: Final = (ArithmeticError, RecursionError, TypeError, ValueError)
"""Exceptions that unforeseen values may raise in expressions: they fail the step, not the
master."""


class _Outdated(Exception):
    """Raised when another writer has changed the run."""


class WorkflowRunner:
    """Implements `crawlfleet.ports.events.EventSink`, for the master that leads."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        tasks: Tasks,
        orders: TaskOrders,
        plans: PlanCache,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._tasks = tasks
        self._orders = orders
        self._plans = plans
        self._turn = asyncio.Lock()
        self._epoch = 0
        self._runs: dict[str, RunState] = {}

    async def publish(self, events: Sequence[Event]) -> None:
        """Continue the runs that these events concern. Raises `LeadershipLost` or
        `StoreUnavailable`; the events must then be sent again."""
        heard: dict[str, list[Event]] = {}
        for event in events:
            if event.kind in _STEERED:
                heard.setdefault(event.subject, [])
                self._runs.pop(event.subject, None)
            elif event.kind in _DECIDED and "run_id" in event.details:
                heard.setdefault(event.details["run_id"], [])
                self._runs.pop(event.details["run_id"], None)
            elif event.kind.startswith("task.") and "run_id" in event.details:
                heard.setdefault(event.details["run_id"], []).append(event)
        for run_id, of_tasks in heard.items():
            await self.advance(run_id, of_tasks)

    async def run(self) -> None:
        """Continue all live runs once: the event log may not go back to their beginning."""
        while True:
            async with StorePause(log, "runs wait for the store"):
                after: str | None = None
                while found := await self._store.find(live_runs(after=after, limit=RUNS_BATCH)):
                    for run in found:
                        await self.advance(run.id)
                    after = found[-1].id
                return

    async def advance(self, run_id: str, events: Sequence[Event] = ()) -> None:
        """Continue one run as far as it can."""
        async with self._turn:
            if self._epoch != self._state.epoch:
                self._runs.clear()
                self._epoch = self._state.epoch
            # A step of a run is several commits: what the run has in memory is dropped between two.
            for _ in range(MAX_DECISIONS):
                try:
                    return await self._advance(run_id, events)
                except _Outdated:
                    self._runs.pop(run_id, None)
                except BaseException as error:
                    self._runs.pop(run_id, None)
                    if isinstance(error, StoreUnavailable | LeadershipLost):
                        raise
                    if not isinstance(error, Exception):
                        raise
                    # A run is durable: raised on, this would end every master that leads.
                    log.exception("defect: a run waits for its next event", run_id=run_id)
                    return None
        raise self._state.reload(f"{run_id} changes too quickly to go on")

    async def _advance(self, run_id: str, events: Sequence[Event]) -> None:
        live = self._runs.get(run_id)
        if live is not None:
            heard = (live.hear(event) for event in events)
            over = dict.fromkeys(place for place in heard if place is not None)
            if not over:
                return
        else:
            live = await self._load(run_id)
            if live is None:
                return
            over = dict.fromkeys(place for place in live.running if live.is_over(place))
            if live.run.status is RunStatus.CANCELLING:
                await self._stop(live)
        await self._settle(live, over)
        # What was drafted counts for the quotas until it is in the copy.
        with self._tasks.quotas.intake() as intake:
            if live.run.status is RunStatus.RUNNING:
                await self._go_on(live, intake)
            await self._finish(live)

    async def _load(self, run_id: str) -> RunState | None:
        run = await self._store.get(RUNS, run_id)
        if run is None or run.status not in LIVE_RUN:
            return None
        plan = await self._plans.get(run.workflow_id, run.number)
        assert plan is not None, "versions of workflows are not removed"
        live = RunState(run, plan, await self._store.find(steps_of(run_id)))
        await self._look(live, live.running)
        while len(self._runs) >= KEPT:
            self._runs.pop(next(iter(self._runs)))
        self._runs[run_id] = live
        return live

    async def _look(self, live: RunState, places: Iterable[int]) -> None:
        """Take the store's word for the tasks of some steps."""
        wanted = {place: live.ids(place) for place in places}
        ids = [id for some in wanted.values() for id in some]
        states: dict[str, TaskStatus] = {}
        for first in range(0, len(ids), STATES_BATCH):
            states |= await self._store.task_states(ids[first : first + STATES_BATCH])
        for place in wanted:
            live.see(place, states)

    async def _settle(self, live: RunState, over: Iterable[int]) -> None:
        """End the steps whose instances have ended."""
        # An event may be old: somebody may have sent a task back to work since.
        await self._look(live, over)
        ended = [place for place in over if live.is_over(place)]
        undone = {place: live.undone(place) for place in ended}
        ids = [id for some in undone.values() for id in some]
        found = {task.id: task for task in await self._store.tasks(ids)} if ids else {}
        now = self._system.now()
        waiting = await self._hold(live, [place for place in ended if not undone[place]], now)
        for place in ended:
            if place in waiting:
                continue
            reasons = []
            for id in undone[place]:
                task = found.get(id)
                if task is None:
                    reasons.append(f"{id} was removed")
                else:
                    said = task.error.message if task.error else str(task.status)
                    reasons.append(f"{id}: {said}" if live.rows[place].count > 1 else said)
            live.settle(place, reasons, now)

    async def _hold(self, live: RunState, places: Sequence[int], now: float) -> set[int]:
        """Hold or fail completed steps whose items a user has to accept or has rejected; return
        these. A run that is being cancelled waits for nobody."""
        measured = [place for place in places if live.is_measured(place)]
        if not measured or live.run.status is RunStatus.CANCELLING:
            return set()
        concerned: set[int] = set()
        for place in measured:
            was_held = live.rows[place].status is StepStatus.HELD
            standing = await self._standing(live.ids(place), was_held=was_held)
            if isinstance(standing, Rejected):
                live.reject(place, standing.reason, now)
            elif isinstance(standing, Held):
                live.hold(place, standing.reason, now)
            else:
                continue
            concerned.add(place)
        return concerned

    async def _standing(self, ids: Sequence[str], *, was_held: bool) -> Held | Rejected | None:
        """Return the reason why a completed step is held or rejected; `None` if it may end. Only
        tasks that the reason names are read in full: a step may have thousands."""
        said: dict[str, Said] = {}
        for first in range(0, len(ids), STATES_BATCH):
            said |= dict(
                await self._store.values(
                    measured_runs_of(ids[first : first + STATES_BATCH]), "task_id", "decision"
                )
            )
        named, more = concerned(said)
        if named:
            newest = {
                each.task_id: each for each in await self._store.find(measured_runs_of(named))
            }
            return held_by(newest.values(), more)
        # Only who accepts lets go what was held, not that nothing is left to accept.
        is_gone = len(said) < len(ids) and Said.ACCEPTED not in said.values()
        return Held(GONE) if was_held and is_gone else None

    async def _go_on(self, live: RunState, intake: QuotaIntake) -> None:
        """Decide about all ready steps, and begin them."""
        while steps := live.course.ready(STEPS_BATCH):
            for step in steps:
                await self._decide(live, step, intake)
                if live.weight >= MAX_CHANGE_WEIGHT:
                    await self._write(live)
                    intake.release()
                # A step may be a good deal of work: others have their turn after each.
                await asyncio.sleep(0)

    async def _decide(self, live: RunState, step: PlannedStep, intake: QuotaIntake) -> None:
        accepted = len(intake.accepted)
        try:
            made = await self._judged(live, step, intake)
        except _OF_VALUES as error:
            log.exception("a step failed by its values", run_id=live.run.id, step=step.name)
            made = f"its values cannot be computed with: {type(error).__name__}: {error}"
        now = self._system.now()
        if isinstance(made, str):
            intake.release(accepted)
            live.course.settle(step.place, StepStatus.FAILED)
            live.end_unbegun(step, StepStatus.FAILED, made, now)
        elif isinstance(made[0].verdict, StartStep):
            live.begin(step, made[1], made[0].status, now)
        else:
            live.end_unbegun(step, made[0].status, made[0].verdict.reason, now)

    async def _judged(
        self, live: RunState, step: PlannedStep, intake: QuotaIntake
    ) -> tuple[StepDecision, list[Change]] | str:
        """Decide about a step; return the decision with the drafts of its tasks, or the reason why
        the step fails."""
        scope = (
            ExpressionScope() if live.course.unmet(step) else await live.scope(step, self._store)
        )
        if isinstance(scope, str):
            return scope
        decision = live.course.decide(step, scope)
        if not isinstance(decision.verdict, StartStep):
            return decision, []
        drafts = await self._drafts(live, decision, intake)
        return drafts if isinstance(drafts, str) else (decision, drafts)

    async def _drafts(
        self, live: RunState, decision: StepDecision, intake: QuotaIntake
    ) -> list[Change] | str:
        """Return the drafts of a step's tasks; or the reason why one is not accepted."""
        assert isinstance(decision.verdict, StartStep)
        step, run = decision.step, live.run
        before = live.rows.get(step.place)
        attempt = before.attempt if before else 1
        drafts: list[Change] = []
        request = request_of(live.plan.document, step.name, run.parameters)
        request = msgspec.structs.replace(request, workflow_id=run.id)
        spread = request.expectations is not None and step.items is not None
        for index, parameters in enumerate(decision.verdict.parameters):
            ref = StepRef(run_id=run.id, step=step.name, attempt=attempt, index=index)
            if spread:
                wanted = request_of(live.plan.document, step.name, run.parameters, index)
                request = msgspec.structs.replace(request, expectations=wanted.expectations)
            draft = await self._tasks.draft(
                msgspec.structs.replace(request, parameters=parameters),
                by=f"the run {run.id} of {run.name}",
                id=task_id(ref, run.created_at),
                step=ref,
                intake=intake,
            )
            if isinstance(draft, str):
                return draft if len(decision.verdict.parameters) == 1 else f"[{index}]: {draft}"
            drafts.append(draft)
            if index % BREATHE_EVERY == BREATHE_EVERY - 1:
                await asyncio.sleep(0)
        return drafts

    async def _stop(self, live: RunState) -> None:
        """Cancel the tasks of a run that have not ended."""
        ids = [id for place in live.running for id in live.ids(place)]
        states: dict[str, TaskStatus] = await self._store.task_states(ids) if ids else {}
        alive = [id for id in ids if states.get(id, TaskStatus.FAILED) not in TERMINAL]
        if alive:
            order = TaskOrder(verb=Verb.CANCEL, by=f"the run {live.run.id}: {live.run.cause}")
            await self._orders.carry_out(order, alive)

    async def _finish(self, live: RunState) -> None:
        outcome = live.course.outcome()
        if live.run.status is RunStatus.CANCELLING:
            outcome = None if live.running else RunStatus.CANCELLED
        if outcome is not None:
            live.end(outcome, self._system.now())
        await self._write(live)
        if outcome is not None:
            self._runs.pop(live.run.id, None)
            log.info("run ended", run_id=live.run.id, status=str(outcome))

    async def _write(self, live: RunState) -> None:
        change = live.take_change(self._system.now())
        if change is None:
            return
        (refusal,) = await self._state.commit_as_leader([change])
        if refusal is not None:
            raise _Outdated
