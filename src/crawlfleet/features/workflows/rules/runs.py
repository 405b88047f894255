"""The life of a run as rows and events: begun, cancelled, ended, run again."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.features.workflows.model import (
    LIVE_RUN,
    SETTLED,
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    Workflow,
    WorkflowDocument,
    WorkflowVersion,
    step_row_id,
    version_row_id,
)
from crawlfleet.features.workflows.rules.plan import WorkflowPlan
from crawlfleet.features.workflows.rules.requests import task_id
from crawlfleet.model.change import Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.task import Callback, StepRef

KEY_LASTS_S: Final = 7 * 86_400.0
"""So long the same idempotency key gives the same run."""
MAX_NAMED: Final = 5
UNDONE: Final = frozenset({StepStatus.FAILED, StepStatus.CANCELLED})


def new_version(
    before: Workflow | None,
    document: WorkflowDocument,
    *,
    id: str,
    digest: str,
    now: float,
    by: str,
) -> Change:
    """A document as the next version of a workflow, or as the first of a new one."""
    number = 1 if before is None else before.latest + 1
    workflow = Workflow(
        id=id,
        project_id=document.project_id,
        name=document.name,
        created_at=now if before is None else before.created_at,
        updated_at=now,
        description=document.description,
        latest=number,
        steps=len(document.steps),
        digest=digest,
        version=1 if before is None else before.version + 1,
    )
    version = WorkflowVersion(
        id=version_row_id(id, number),
        workflow_id=id,
        number=number,
        created_at=now,
        document=msgspec.Raw(msgspec.json.encode(document)),
        made_by=by,
    )
    claim = Claim(
        scope=name_scope(document.project_id),
        key=document.name,
        holder=id,
        at=now,
        expires_at=float("inf"),
    )
    event = Event(
        kind="workflow.created" if before is None else "workflow.changed",
        subject=id,
        at=now,
        cause=f"version {number} by {by}",
        details={"number": number, "name": document.name},
        project_id=document.project_id,
    )
    return Change(rows=(workflow, version), claims=(claim,), events=(event,))


def name_scope(project_id: str) -> str:
    """Within which the names of workflows are different."""
    return f"workflow:{project_id}"


def new_run(
    workflow: Workflow,
    number: int,
    steps: int,
    parameters: msgspec.Raw,
    *,
    id: str,
    now: float,
    by: str,
    key: str | None = None,
    digest: str = "",
    callback: Callback | None = None,
) -> Change:
    """The change that begins a run."""
    run = Run(
        id=id,
        project_id=workflow.project_id,
        workflow_id=workflow.id,
        name=workflow.name,
        number=number,
        created_at=now,
        updated_at=now,
        parameters=parameters,
        steps=steps,
        cause=f"submitted by {by}",
        idempotency_key=key,
        callback=callback,
    )
    claims = []
    if key is not None:
        claims.append(
            Claim(
                scope=f"workflow-run:{workflow.project_id}",
                key=key,
                holder=id,
                at=now,
                expires_at=now + KEY_LASTS_S,
                digest=digest,
            )
        )
    event = run_event(run, None, now, run.cause)
    return Change(rows=(run,), claims=tuple(claims), events=(event,))


def run_event(run: Run, before: RunStatus | None, now: float, cause: str) -> Event:
    """Return the event about a run's new state."""
    return Event(
        kind=f"run.{run.status}",
        subject=run.id,
        at=now,
        cause=cause,
        from_state=None if before is None else str(before),
        to_state=str(run.status),
        details=_with_callback(
            run, {"workflow_id": run.workflow_id, "name": run.name, "attempt": run.attempt}
        ),
        project_id=run.project_id,
    )


def _with_callback(run: Run, details: dict[str, Any]) -> dict[str, Any]:
    """Add the run's call-back to event details, so that webhooks need not read every run."""
    return details if run.callback is None else {**details, "callback": run.callback.webhook_id}


def step_event(run: Run, row: RunStep) -> Event:
    """Return the event about a step's new state; its subject is the run."""
    details: dict[str, Any] = {"step": row.step, "attempt": row.attempt, "count": row.count}
    return Event(
        kind=f"step.{row.status}",
        subject=run.id,
        at=row.updated_at,
        cause=row.reason or "those before it have ended",
        details=_with_callback(run, details),
        project_id=run.project_id,
    )


def step_row(
    run: Run,
    step: str,
    before: RunStep | None,
    status: StepStatus,
    *,
    now: float,
    count: int = 0,
    reason: str = "",
) -> RunStep:
    """Return the row of a step in its new state."""
    is_new = before is None or before.status is StepStatus.WAITING
    return RunStep(
        id=step_row_id(run.id, step),
        run_id=run.id,
        step=step,
        status=status,
        updated_at=now,
        attempt=1 if before is None else before.attempt,
        count=count if is_new else (before.count if before else 0),
        started_at=now if is_new else (before.started_at if before else None),
        ended_at=now if status in SETTLED else None,
        # Names in a result may have any character, and not every store holds all of them.
        reason=reason.replace("\0", "\N{REPLACEMENT CHARACTER}"),
        version=1 if before is None else before.version + 1,
    )


def moved_run(
    run: Run, status: RunStatus, *, now: float, cause: str, **fields: Any
) -> tuple[Run, Event]:
    """Return the run in another state, with the event about it."""
    moved = msgspec.structs.replace(
        run,
        status=status,
        updated_at=now,
        ended_at=None if status in LIVE_RUN else now,
        cause=cause,
        version=run.version + 1,
        **fields,
    )
    return moved, run_event(moved, run.status, now, cause)


def ended_fields(
    plan: WorkflowPlan, rows: Mapping[int, RunStep], status: RunStatus
) -> dict[str, Any]:
    """Return the fields of an ended run: its steps counted by state, and an error text."""
    states = Counter(
        str(rows[step.place].status) if step.place in rows else str(StepStatus.WAITING)
        for step in plan.steps
    )
    waiting = states.pop(str(StepStatus.WAITING), 0)
    if waiting:
        states[str(StepStatus.CANCELLED)] += waiting
    undone = [
        f"{step.name}: {rows[step.place].reason or rows[step.place].status}"
        for step in plan.steps
        if step.place in rows and rows[step.place].status in UNDONE and not step.step.optional
    ]
    told = "; ".join(undone[:MAX_NAMED])
    if len(undone) > MAX_NAMED:
        told += f"; and {len(undone) - MAX_NAMED} more"
    return {"counts": dict(states), "error": "" if status is RunStatus.COMPLETED else told}


def instance_ids(run: Run, row: RunStep) -> list[str]:
    """The ids of the tasks of a step."""
    return [_instance_id(run, row, index) for index in range(row.count)]


def first_instance_id(run: Run, row: RunStep) -> str:
    """The id of the first task of a step."""
    return _instance_id(run, row, 0)


def _instance_id(run: Run, row: RunStep, index: int) -> str:
    ref = StepRef(run_id=run.id, step=row.step, attempt=row.attempt, index=index)
    return task_id(ref, run.created_at)


def status_of(statuses: Iterable[StepStatus]) -> StepStatus:
    """Return the final state of a step from those of its instances."""
    found = {*statuses}
    for status in (StepStatus.FAILED, StepStatus.CANCELLED):
        if status in found:
            return status
    return StepStatus.COMPLETED


class RerunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps to repeat in a run that has ended."""

    retried: tuple[int, ...] = ()
    """Places of steps that keep their tasks: only tasks that did not complete are retried."""
    renewed: tuple[int, ...] = ()
    """Places of steps that are decided again, with new tasks."""


def again(plan: WorkflowPlan, rows: Mapping[int, RunStep], chosen: Sequence[int]) -> RerunPlan:
    """Return the steps to repeat: the chosen ones and all after them, or those that failed and all
    after them."""
    if chosen:
        return RerunPlan(renewed=tuple(sorted(plan.downstream({*chosen}))))
    undone = {place for place, row in rows.items() if row.status in UNDONE}
    after = {follower for place in undone for follower in plan.steps[place].dependents}
    renewed = plan.downstream(after)
    never = {step.place for step in plan.steps if step.place not in rows}
    retried = {place for place in undone - renewed if rows[place].count}
    return RerunPlan(
        retried=tuple(sorted(retried)),
        renewed=tuple(sorted((renewed | undone | never) - retried)),
    )


def rerun(
    run: Run,
    plan: WorkflowPlan,
    rows: Mapping[int, RunStep],
    what: RerunPlan,
    *,
    now: float,
    by: str,
) -> Change:
    """The change that lets an ended run go on."""
    moved, event = moved_run(
        run,
        RunStatus.RUNNING,
        now=now,
        cause=f"run again by {by}",
        attempt=run.attempt + 1,
        counts={},
        error="",
    )
    steps = [
        msgspec.structs.replace(
            rows[place],
            status=StepStatus.RUNNING,
            updated_at=now,
            ended_at=None,
            reason="",
            version=rows[place].version + 1,
        )
        for place in what.retried
    ]
    steps += [
        RunStep(
            id=rows[place].id,
            run_id=run.id,
            step=rows[place].step,
            status=StepStatus.WAITING,
            updated_at=now,
            attempt=rows[place].attempt + 1,
            version=rows[place].version + 1,
        )
        for place in what.renewed
        if place in rows
    ]
    return Change(rows=(moved, *steps), events=(event,))


def counted(run: Run, plan: WorkflowPlan, rows: Mapping[int, RunStep]) -> dict[str, int]:
    """Return the number of steps of a run by state."""
    return dict(Counter(status_in(run, rows.get(step.place)) for step in plan.steps))


def status_in(run: Run, row: RunStep | None) -> str:
    """Return the state of a step. A step that never began in a cancelled run counts as
    cancelled."""
    status = StepStatus.WAITING if row is None else row.status
    if status is StepStatus.WAITING and run.status not in LIVE_RUN:
        assert run.status is RunStatus.CANCELLED
        return str(StepStatus.CANCELLED)
    return str(status)
