"""The service for workflows: validate, keep in versions, run, cancel, run again."""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import accept, expect_version, has_changed
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.quality.recording import failed_by_items
from crawlfleet.core.tasks import credentials
from crawlfleet.core.tasks.admission import MAX_PARAMETERS_BYTES, AdmissionRules
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from crawlfleet.features.webhooks.submission import CallbackCheck
from crawlfleet.features.workflows.model import (
    LIVE_RUN,
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    Workflow,
    WorkflowDocument,
    WorkflowVersion,
    version_row_id,
)
from crawlfleet.features.workflows.plan_cache import LARGE_BYTES, PlanCache
from crawlfleet.features.workflows.rules import document as documents
from crawlfleet.features.workflows.rules import runs, validation
from crawlfleet.features.workflows.rules.plan import WorkflowPlan
from crawlfleet.features.workflows.rules.requests import request_of
from crawlfleet.features.workflows.runner import WorkflowRunner
from crawlfleet.features.workflows.table import (
    RUNS,
    WORKFLOW_VERSIONS,
    WORKFLOWS,
    RunFilter,
    find_runs,
    find_workflows,
    steps_of,
    versions_of,
)
from crawlfleet.model.change import Change
from crawlfleet.model.ids import RUN, WORKFLOW, make_id
from crawlfleet.model.quality import Decision
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import EMPTY_OBJECT, TERMINAL, TaskStatus
from crawlfleet.ports.kernel_tables import measured_runs_of
from crawlfleet.ports.store import Refusal, RefusalKind, Store
from crawlfleet.ports.system import System

LOOK_EVERY_S: Final = 0.25
"""Interval at which a caller that waits for the end of a run reads its state."""
MAX_CHOSEN: Final = 100
MAX_COUNTED: Final = 20_000
"""Maximum number of instances whose states are read to count those of a run."""
STATES_BATCH: Final = 5_000


class InstanceCounts(NamedTuple):
    """Numbers of a step's instances that have ended."""

    done: int
    """Number of instances that completed."""
    undone: int
    """Number of instances that failed, timed out or were cancelled."""


async def count_instances(
    store: Store, run: Run, rows: Iterable[RunStep]
) -> dict[str, InstanceCounts]:
    """Return the ended instances by step. Steps beyond the first `MAX_COUNTED` instances are left
    out."""
    found: dict[str, InstanceCounts] = {}
    wanted: dict[str, list[str]] = {}
    room = MAX_COUNTED
    for row in rows:
        if row.status is StepStatus.COMPLETED or not row.count:
            found[row.step] = InstanceCounts(row.count, 0)
        elif row.count <= room:
            wanted[row.step] = runs.instance_ids(run, row)
            room -= row.count
    ids = [id for some in wanted.values() for id in some]
    states: dict[str, TaskStatus] = {}
    for first in range(0, len(ids), STATES_BATCH):
        states |= await store.task_states(ids[first : first + STATES_BATCH])
    for step, some in wanted.items():
        ended = [states[id] for id in some if states.get(id) in TERMINAL]
        done = ended.count(TaskStatus.COMPLETED)
        found[step] = InstanceCounts(done, len(ended) - done)
    return found


class Workflows:
    """Accepts workflows and lets them run."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        tasks: Tasks,
        orders: TaskOrders,
        callbacks: CallbackCheck,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._tasks = tasks
        self._orders = orders
        self._plans = PlanCache(store=store)
        self._callbacks = callbacks
        self._rules = tasks.rules
        self.runner = WorkflowRunner(
            store=store, state=state, system=system, tasks=tasks, orders=orders, plans=self._plans
        )
        """Continues the runs of workflows while this master leads."""

    async def check(
        self, raw: bytes, *, project_id: str | None = None
    ) -> tuple[WorkflowDocument | None, list[FieldProblem]]:
        """Parse and check the JSON text of a document; return it with its problems. Nothing is
        stored. With `project_id` the document must belong to that project, which is the default."""
        if len(raw) < LARGE_BYTES:
            read, problems = _checked(raw, self._rules, project_id)
        else:
            read, problems = await asyncio.to_thread(_checked, raw, self._rules, project_id)
        if read is None or problems:
            return read, problems
        wanted = _wanted(read)
        found = await self._tasks.place_problems([*wanted.values()])
        return read, [
            msgspec.structs.replace(problem, field=_field(name, problem))
            for name, problem in zip(wanted, found, strict=True)
            if problem is not None
        ]

    async def save(
        self, raw: bytes, *, by: str, project_id: str | None = None
    ) -> tuple[Workflow, bool]:
        """Store a document as the newest version of its workflow; true if that is new. Raises
        `InvalidRequest` for a document with problems.

        With `project_id` the document must belong to that project, which is the default.
        """
        document = await self._accepted(raw, by, project_id)
        digest = _digest(msgspec.json.encode(document))

        async def decide() -> tuple[tuple[Workflow, bool], Change | None]:
            found = await self._store.find(
                find_workflows(
                    project_id=document.project_id, name=document.name, after=None, limit=1
                )
            )
            before = found[0] if found else None
            if before is not None and before.digest == digest:
                return (before, False), None
            now = self._system.now()
            id = before.id if before else make_id(WORKFLOW, now, self._system.entropy)
            change = runs.new_version(before, document, id=id, digest=digest, now=now, by=by)
            return (change.of(Workflow)[0], True), change

        return await self._state.decide(document.name, decide)

    async def _accepted(self, raw: bytes, by: str, own: str | None) -> WorkflowDocument:
        document, problems = await self.check(raw, project_id=own)
        accept(problems)
        assert document is not None, "that would be a problem"
        await self._tasks.ensure_project(document.project_id, by=by)
        for request in _wanted(document).values():
            if closed := self._tasks.closed(request):
                raise Conflict(closed)
        return document

    async def get(self, workflow_id: str) -> Workflow:
        """The workflow, or `NotFound`."""
        workflow = await self._store.get(WORKFLOWS, workflow_id)
        if workflow is None:
            raise NotFound("workflow", workflow_id)
        return workflow

    async def find(
        self, *, project_id: str | None, name: str | None, after: str | None, limit: int
    ) -> list[Workflow]:
        """Workflows in order of their making."""
        return await self._store.find(
            find_workflows(project_id=project_id, name=name, after=after, limit=limit)
        )

    async def version(self, workflow_id: str, number: int | None = None) -> WorkflowVersion:
        """A version with its document, the newest when none is named; or `NotFound`."""
        workflow = await self.get(workflow_id)
        wanted = workflow.latest if number is None else number
        version = await self._store.get(WORKFLOW_VERSIONS, version_row_id(workflow_id, wanted))
        if version is None:
            raise NotFound("version", f"{workflow_id} version {wanted}")
        return version

    async def versions(
        self, workflow_id: str, *, below: int | None, limit: int
    ) -> list[WorkflowVersion]:
        """Return the versions of a workflow without their documents, the newest first."""
        await self.get(workflow_id)
        return await self._store.find(versions_of(workflow_id, before=below, limit=limit))

    async def start(
        self,
        workflow_id: str,
        parameters: Mapping[str, Any],
        *,
        by: str,
        number: int | None = None,
        key: str | None = None,
        callback_url: str | None = None,
    ) -> tuple[Run, bool]:
        """Start a run; true if it is new. The same idempotency key returns the same run."""
        change = await self.draft(
            workflow_id, parameters, by=by, number=number, key=key, callback_url=callback_url
        )
        (refusal,) = await self._state.commit([change])
        if refusal is None:
            return change.of(Run)[0], True
        if refusal.kind is not RefusalKind.CLAIM:
            raise has_changed(workflow_id)
        return await self._same(refusal, change.claims[0].digest), False

    async def draft(
        self,
        workflow_id: str,
        parameters: Mapping[str, Any],
        *,
        by: str,
        number: int | None = None,
        key: str | None = None,
        callback_url: str | None = None,
    ) -> Change:
        """The change that begins a run, to be committed alone or with something else.

        Raises `NotFound`, `InvalidRequest` or `Conflict` when it may not begin.
        """
        workflow = await self.get(workflow_id)
        wanted = workflow.latest if number is None else number
        plan = await self._plans.get(workflow_id, wanted)
        if plan is None:
            raise NotFound("version", f"{workflow_id} version {wanted}")
        raw = msgspec.json.encode(parameters, order="sorted")
        accept(given_problems(plan, parameters, raw))
        first = next(iter(plan.document.steps))
        if closed := self._tasks.closed(request_of(plan.document, first, EMPTY_OBJECT)):
            raise Conflict(closed)
        found = await self._callbacks.choose([(workflow.project_id, callback_url)])
        callback = found.get(workflow.project_id, callback_url)
        if isinstance(callback, FieldProblem):
            raise InvalidRequest([callback])
        now = self._system.now()
        return runs.new_run(
            workflow,
            wanted,
            len(plan.steps),
            msgspec.Raw(raw),
            id=make_id(RUN, now, self._system.entropy),
            now=now,
            by=by,
            key=key,
            digest=_digest(
                f"{workflow_id} {wanted} ".encode() + raw + (callback_url or "").encode()
            ),
            callback=callback,
        )

    async def plan(self, workflow_id: str, number: int) -> WorkflowPlan | None:
        """The plan of a version; `None` when there is no such version."""
        return await self._plans.get(workflow_id, number)

    async def _same(self, refusal: Refusal, digest: str) -> Run:
        claim = refusal.claim
        assert claim is not None, "a claim was in the way"
        if claim.digest == digest and (run := await self._store.get(RUNS, claim.holder)):
            return run
        raise Conflict(
            f"idempotency_key {claim.key!r} was used for another run ({claim.holder}); use a new "
            "key, or send the same request"
        )

    async def run(self, run_id: str) -> Run:
        """The run, or `NotFound`."""
        run = await self._store.get(RUNS, run_id)
        if run is None:
            raise NotFound("run", run_id)
        return run

    async def wait(self, run_id: str, wait_s: float) -> Run:
        """Wait for the end of a run, at most `wait_s` seconds; return the run as it then is."""
        run = await self.run(run_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while run.status in LIVE_RUN and wait_s > 0:
                    await asyncio.sleep(min(LOOK_EVERY_S, wait_s))
                    run = await self.run(run_id)
        return run

    async def find_runs(self, filter: RunFilter, *, after: str | None, limit: int) -> list[Run]:
        """Runs, the newest first."""
        return await self._store.find(find_runs(filter, after=after, limit=limit))

    async def standing(self, run: Run) -> tuple[WorkflowPlan, dict[int, RunStep]]:
        """Return the plan of a run, and the rows of its steps by place."""
        plan = await self._plans.get(run.workflow_id, run.number)
        if plan is None:
            raise NotFound("version", f"{run.workflow_id} version {run.number}")
        rows = await self._store.find(steps_of(run.id))
        return plan, {plan.places[row.step]: row for row in rows}

    async def count_instances(self, run: Run, rows: Iterable[RunStep]) -> dict[str, InstanceCounts]:
        """Return the ended instances by step; steps with too many instances are left out."""
        return await count_instances(self._store, run, rows)

    async def cancel(self, run_id: str, *, by: str, if_version: int | None = None) -> Run:
        """Cancel a run: begin no more steps, and stop those at work. A cancelled run is returned as
        it is; raises `Conflict` for one that has ended otherwise."""

        async def decide() -> tuple[Run, Change | None]:
            run = await self.run(run_id)
            if run.status in {RunStatus.CANCELLING, RunStatus.CANCELLED}:
                return run, None
            if run.status not in LIVE_RUN:
                raise Conflict(f"cannot cancel {run_id}: it is {run.status}")
            expect_version(run_id, run.version, if_version)
            moved, event = runs.moved_run(
                run, RunStatus.CANCELLING, now=self._system.now(), cause=f"cancelled by {by}"
            )
            return moved, Change(rows=(moved,), events=(event,))

        return await self._state.decide(run_id, decide)

    async def rerun(
        self, run_id: str, chosen: tuple[str, ...] = (), *, by: str, if_version: int | None = None
    ) -> Run:
        """Continue an ended run: from the chosen steps, or from those that failed."""
        run = await self.run(run_id)
        if run.status in LIVE_RUN:
            raise Conflict(f"cannot run {run_id} again: it is {run.status}; cancel it, or wait")
        expect_version(run_id, run.version, if_version)
        plan, rows = await self.standing(run)
        accept(_unknown(chosen, plan))
        what = runs.again(plan, rows, [plan.places[name] for name in chosen])
        what = await self._with_tasks(run, plan, rows, what)
        if not what.retried and not what.renewed:
            raise Conflict(f"cannot run {run_id} again: all of its steps completed; name a step")
        change = runs.rerun(run, plan, rows, what, now=self._system.now(), by=by)
        (refusal,) = await self._state.commit([change])
        if refusal is not None:
            raise has_changed(run_id)
        return change.of(Run)[0]

    async def _is_rejected(self, plan: WorkflowPlan, place: int, ids: list[str]) -> bool:
        """Return true if a step failed by its items and has nothing to retry: its tasks or all
        shards of one completed, and would fail it once more."""
        if plan.steps[place].step.expectations is None:
            return False
        said = dict(await self._store.values(measured_runs_of(ids), "task_id", "decision"))
        if Decision.REJECTED in said.values():
            return True
        tasks = await self._store.tasks([*said])
        return any(task.is_parent and failed_by_items(task) for task in tasks)

    async def _with_tasks(
        self, run: Run, plan: WorkflowPlan, rows: dict[int, RunStep], what: runs.RerunPlan
    ) -> runs.RerunPlan:
        """Retry the tasks of steps that did not complete, before their steps change.

        A master that dies in between leaves retried tasks without a running step; the next call
        continues with them. Steps whose tasks were removed since, or whose items were rejected, are
        decided again, with all after them.
        """
        gone: set[int] = set()
        for place in what.retried:
            ids = runs.instance_ids(run, rows[place])
            states = await self._store.task_states(ids)
            if len(states) < len(ids) or await self._is_rejected(plan, place, ids):
                gone.add(place)
                continue
            ended = [
                id
                for id, status in states.items()
                if status in TERMINAL and status is not TaskStatus.COMPLETED
            ]
            await self._orders.carry_out(TaskOrder(verb=Verb.RETRY, by=f"the run {run.id}"), ended)
        if not gone:
            return what
        renewed = plan.downstream({*what.renewed, *gone})
        return runs.RerunPlan(
            retried=tuple(place for place in what.retried if place not in renewed),
            renewed=tuple(sorted(renewed)),
        )


def _wanted(document: WorkflowDocument) -> dict[str, TaskRequest]:
    """Return task requests by the name of a step, one for each distinct set of cluster, bundle,
    type and secrets."""
    seen: set[tuple[Any, ...]] = set()
    wanted: dict[str, TaskRequest] = {}
    for name in document.steps:
        step = document.steps[name]
        # Expressions are not computed yet; references to secrets stand as they are.
        raw = EMPTY_OBJECT
        if step.task_type in credentials.TYPES:
            raw = msgspec.Raw(msgspec.json.encode(step.parameters))
        referred = credentials.names_in(step.task_type, bytes(raw))
        request = request_of(document, name, raw if referred else EMPTY_OBJECT)
        key = request.cluster_id, request.bundle, request.task_type, request.secrets, referred
        if key not in seen:
            seen.add(key)
            wanted[name] = request
    return wanted


def _checked(
    raw: bytes, rules: AdmissionRules, own: str | None
) -> tuple[WorkflowDocument | None, list[FieldProblem]]:
    read, problems = documents.read(raw, own=own)
    return read, problems if read is None else validation.problems_of(read, rules)


def _field(step: str, problem: FieldProblem) -> str:
    return problem.field if problem.field == "project_id" else f"steps.{step}.{problem.field}"


def given_problems(
    plan: WorkflowPlan, parameters: Mapping[str, Any], raw: bytes, within: str = "parameters"
) -> list[FieldProblem]:
    """Return the problems of the parameters of a run; `raw` is their JSON."""
    found = validation.given_problems(plan.document.parameters, dict(parameters), within)
    return [*found, *_too_large(raw, within)]


def _too_large(parameters: bytes, within: str) -> list[FieldProblem]:
    if len(parameters) <= MAX_PARAMETERS_BYTES:
        return []
    return [
        FieldProblem(
            field=within,
            value=len(parameters),
            message=f"have {len(parameters)} bytes",
            remedy=f"use at most {MAX_PARAMETERS_BYTES}; put large data where tasks can fetch it",
        )
    ]


def _unknown(chosen: tuple[str, ...], plan: WorkflowPlan) -> list[FieldProblem]:
    if len(chosen) > MAX_CHOSEN:
        return [
            FieldProblem(
                field="steps",
                value=len(chosen),
                message="names too many steps",
                remedy=f"name at most {MAX_CHOSEN}; those after them follow by themselves",
            )
        ]
    return [
        FieldProblem(
            field=f"steps[{at}]",
            value=name[:64],
            message=f"names no step: {name[:64]!r}",
            remedy="name a step of the workflow",
        )
        for at, name in enumerate(chosen)
        if name not in plan.places
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
