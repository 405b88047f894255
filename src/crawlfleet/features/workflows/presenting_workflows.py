"""Workflows and runs from the model to what the API shows."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.features.workflows.model import (
    LIVE_RUN,
    Dependency,
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    Workflow,
    WorkflowDocument,
    WorkflowVersion,
)
from crawlfleet.features.workflows.rules.plan import Plan, PlannedStep
from crawlfleet.features.workflows.rules.runs import instance_ids
from crawlfleet.features.workflows.views import RunStepView, RunView, VersionView, WorkflowView
from crawlfleet.views.presenting import instant, moment


def present_workflow(workflow: Workflow) -> WorkflowView:
    return WorkflowView(
        id=workflow.id,
        name=workflow.name,
        project_id=workflow.project_id,
        description=workflow.description,
        latest=workflow.latest,
        steps=workflow.steps,
        created_at=moment(workflow.created_at),
        updated_at=moment(workflow.updated_at),
    )


def present_version(version: WorkflowVersion, *, whole: bool) -> VersionView:
    document = None
    if whole:
        document = msgspec.json.decode(version.document, type=WorkflowDocument)
    return VersionView(
        workflow_id=version.workflow_id,
        number=version.number,
        made_by=version.made_by,
        created_at=moment(version.created_at),
        document=document,
    )


def present_run(run: Run, counts: Mapping[str, int] | None = None) -> RunView:
    return RunView(
        id=run.id,
        name=run.name,
        workflow_id=run.workflow_id,
        workflow_version=run.number,
        project_id=run.project_id,
        status=str(run.status),
        parameters=msgspec.json.decode(run.parameters),
        steps=run.steps,
        counts=dict(run.counts if counts is None else counts),
        attempt=run.attempt,
        cause=run.cause,
        error=run.error,
        idempotency_key=run.idempotency_key,
        callback_url=callbacks.shown(run.callback),
        created_at=moment(run.created_at),
        updated_at=moment(run.updated_at),
        ended_at=instant(run.ended_at),
        version=run.version,
    )


def counted(run: Run, plan: Plan, rows: Mapping[int, RunStep]) -> dict[str, int]:
    """How many steps of a run are in which state."""
    return dict(Counter(status_in(run, rows.get(step.place)) for step in plan.steps))


def present_step(
    run: Run, step: PlannedStep, row: RunStep | None, tally: tuple[int, int] | None
) -> RunStepView:
    ids = [] if row is None else instance_ids(run, msgspec.structs.replace(row, count=1))
    done, undone = (0, 0) if row is None else tally or (None, None)
    return RunStepView(
        name=step.name,
        status=status_in(run, row),
        task_type=step.step.task_type,
        depends_on=[
            Dependency(step=each) if isinstance(each, str) else each
            for each in step.step.depends_on
        ],
        for_each=step.items is not None,
        optional=step.step.optional,
        attempt=row.attempt if row else 1,
        count=row.count if row else 0,
        done=done,
        undone=undone,
        task_id=ids[0] if row and row.count else None,
        started_at=instant(row.started_at) if row else None,
        ended_at=instant(row.ended_at) if row else None,
        reason=row.reason if row else "",
    )


def status_in(run: Run, row: RunStep | None) -> str:
    """The state of a step. One that was never begun in a run that was cancelled was cancelled,
    too."""
    status = StepStatus.WAITING if row is None else row.status
    if status is StepStatus.WAITING and run.status not in LIVE_RUN:
        assert run.status is RunStatus.CANCELLED
        return str(StepStatus.CANCELLED)
    return str(status)
