"""Requests and answers about workflows and runs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta

from crawlfleet.features.workflows.model import (
    Dependency,
    Run,
    RunStep,
    Step,
    Workflow,
    WorkflowDocument,
    WorkflowVersion,
)
from crawlfleet.views.fields import instant, moment

MAX_WAIT_S: Final = 60.0
LIVE: Final = frozenset({"running", "cancelling"})
"""The states of a run that has not ended."""

Document = Annotated[
    msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/WorkflowDocument"})
]
"""Parsed by the workflow reader, which reports the path of each error."""
Key = Annotated[str, Meta(min_length=1, max_length=200)]


class WorkflowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow document to store, or only to check."""

    document: Document


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of a stored workflow to start."""

    parameters: dict[str, Any] = {}
    """Values by name, as the document declares them."""
    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    """Version of the workflow; the newest when not set."""
    idempotency_key: Key | None = None
    """Key of this request: sent again within a week, it returns the same run."""
    callback_url: str | None = None
    """Receiver of call-backs about the run: `:update` is added to the address while it runs,
    `:complete` at its end."""


class SubmitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow document to store and run."""

    document: Document
    parameters: dict[str, Any] = {}
    """Values by name, as the document declares them."""
    idempotency_key: Key | None = None
    """Key of this request: sent again within a week, it returns the same run."""
    callback_url: str | None = None
    """Receiver of call-backs about the run: `:update` is added to the address while it runs,
    `:complete` at its end."""


class RerunRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps of a run to repeat."""

    steps: tuple[str, ...] = ()
    """Names of steps: these and all steps after them run again. When empty, all failed and
    cancelled steps and all steps after them."""


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow; the document is in its versions."""

    id: str
    name: str
    project_id: str
    description: str
    latest: int
    """Number of the newest version."""
    steps: int
    """Number of steps in the newest version."""
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, workflow: Workflow) -> Self:
        return cls(
            id=workflow.id,
            name=workflow.name,
            project_id=workflow.project_id,
            description=workflow.description,
            latest=workflow.latest,
            steps=workflow.steps,
            created_at=moment(workflow.created_at),
            updated_at=moment(workflow.updated_at),
        )


class WorkflowPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[WorkflowView]
    next_cursor: str | None


class VersionView(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a workflow document."""

    workflow_id: str
    number: int
    made_by: str
    created_at: datetime
    document: WorkflowDocument | None
    """`null` in lists."""

    @classmethod
    def of(cls, version: WorkflowVersion, *, whole: bool) -> Self:
        document = None
        if whole:
            document = msgspec.json.decode(version.document, type=WorkflowDocument)
        return cls(
            workflow_id=version.workflow_id,
            number=version.number,
            made_by=version.made_by,
            created_at=moment(version.created_at),
            document=document,
        )


class VersionPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[VersionView]
    next_cursor: str | None


class WorkflowProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a document."""

    field: str
    """The path to it, such as `steps.parse.depends_on[0]`."""
    message: str
    remedy: str


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a document."""

    valid: bool
    problems: list[WorkflowProblem]
    steps: int
    order: list[str]
    """All steps, each after the steps that it waits for."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a workflow."""

    id: str
    name: str
    """Name of the workflow."""
    workflow_id: str
    workflow_version: int
    project_id: str
    status: str
    """`running`, `cancelling`, `completed`, `failed` or `cancelled`."""
    parameters: dict[str, Any]
    steps: int
    counts: dict[str, int]
    """Number of steps in each state; not in a list while the run is live."""
    attempt: int
    """Increases each time the run is repeated."""
    cause: str
    error: str
    idempotency_key: str | None
    callback_url: str | None = None
    """Receiver of call-backs about the run."""
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    version: int

    @classmethod
    def of(cls, run: Run, counts: Mapping[str, int] | None = None) -> Self:
        return cls(
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
            callback_url=None if run.callback is None else run.callback.public_url,
            created_at=moment(run.created_at),
            updated_at=moment(run.updated_at),
            ended_at=instant(run.ended_at),
            version=run.version,
        )


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[RunView]
    next_cursor: str | None


class RunStepView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a step of a run."""

    name: str
    status: str
    """`waiting`, `running`, `held`, `completed`, `failed`, `skipped` or `cancelled`. A `held` step
    waits until somebody accepts or rejects the items of its tasks."""
    task_type: str
    depends_on: list[Dependency]
    for_each: bool
    """True if the step runs an instance for each element of a list."""
    optional: bool
    attempt: int
    """Increases each time the step is repeated."""
    count: int
    """Number of instances that were started."""
    done: int | None = None
    """Number of completed instances; `null` when there are too many to count."""
    undone: int | None = None
    """Number of instances that ended without completing; `null` as for `done`."""
    task_id: str | None
    """Task of the first instance; `GET /api/v1/tasks?workflow_id=RUN` lists all tasks of a run."""
    started_at: datetime | None
    ended_at: datetime | None
    reason: str
    """Reason why the step failed, is held, was skipped or was cancelled."""

    @classmethod
    def of(
        cls,
        name: str,
        step: Step,
        row: RunStep | None,
        *,
        status: str,
        task_id: str | None,
        tally: tuple[int, int] | None,
    ) -> Self:
        """A step of a document, with its row if it was begun, and with how many of its instances
        completed and how many ended otherwise, if they were counted."""
        done, undone = (0, 0) if row is None else tally or (None, None)
        return cls(
            name=name,
            status=status,
            task_type=step.task_type,
            depends_on=[
                Dependency(step=each) if isinstance(each, str) else each for each in step.depends_on
            ],
            for_each=step.for_each is not None,
            optional=step.optional,
            attempt=row.attempt if row else 1,
            count=row.count if row else 0,
            done=done,
            undone=undone,
            task_id=task_id,
            started_at=instant(row.started_at) if row else None,
            ended_at=instant(row.ended_at) if row else None,
            reason=row.reason if row else "",
        )


class RunStepPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[RunStepView]
    next_cursor: str | None
