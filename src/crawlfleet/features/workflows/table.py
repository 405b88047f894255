"""Workflows, their versions and their runs, as they are stored."""

from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.features.workflows.model import Run, RunStatus, RunStep, Workflow, WorkflowVersion
from crawlfleet.ports.tables import (
    Index,
    Owned,
    Query,
    Table,
    above,
    among,
    below,
    equal,
    is_set,
    is_unset,
    within,
)

WORKFLOWS: Final = Table(
    Workflow,
    "crawler_workflows",
    columns=(
        "id",
        "project_id",
        "name",
        "latest",
        "steps",
        "digest",
        "created_at",
        "updated_at",
        "version",
        "description",
    ),
    indexes=(Index("ix_workflows_name", ("project_id", "name", "id")),),
)
WORKFLOW_VERSIONS: Final = Table(
    WorkflowVersion,
    "crawler_workflow_versions",
    columns=("id", "workflow_id", "number", "document", "made_by", "created_at", "version"),
    indexes=(Index("ix_workflow_versions", ("workflow_id", "number")),),
)
RUN_STEPS: Final = Table(
    RunStep,
    "crawler_workflow_run_steps",
    columns=(
        "id",
        "run_id",
        "step",
        "status",
        "attempt",
        "count",
        "started_at",
        "ended_at",
        "updated_at",
        "reason",
        "version",
    ),
)
RUNS: Final = Table(
    Run,
    "crawler_workflow_runs",
    columns=(
        "id",
        "project_id",
        "workflow_id",
        "name",
        "number",
        "status",
        "parameters",
        "steps",
        "attempt",
        "created_at",
        "updated_at",
        "ended_at",
        "version",
    ),
    indexes=(
        Index("ix_runs_workflow", ("workflow_id", "id")),
        Index("ix_runs_project", ("project_id", "id")),
        Index("ix_runs_status", ("status", "id")),
        Index("ix_runs_live", ("id",), is_unset("ended_at")),
        Index("ix_runs_ended", ("ended_at", "id"), is_set("ended_at")),
    ),
    owns=(Owned(RUN_STEPS, separator="."),),
    keeps_tasks=is_unset("ended_at"),
)


def find_workflows(
    *, project_id: str | None, name: str | None, after: str | None, limit: int
) -> Query[Workflow]:
    """Workflows with an id above `after`, in order of id."""
    return WORKFLOWS.where(
        equal("project_id", project_id), equal("name", name), above("id", after), limit=limit
    )


def versions_of(workflow_id: str, *, before: int | None, limit: int) -> Query[WorkflowVersion]:
    """Versions of a workflow, the newest first, without their documents, which may be large."""
    return WORKFLOW_VERSIONS.where(
        equal("workflow_id", workflow_id),
        below("number", before),
        order=("number",),
        newest_first=True,
        limit=limit,
        without=("document",),
    )


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for a list of runs; `None` does not restrict."""

    project_id: str | None = None
    workflow_id: str | None = None
    status: RunStatus | None = None


def find_runs(filter: RunFilter, *, after: str | None, limit: int) -> Query[Run]:
    """Runs with an id below `after`, the newest first."""
    return RUNS.where(
        equal("project_id", filter.project_id),
        equal("workflow_id", filter.workflow_id),
        equal("status", filter.status),
        below("id", after),
        newest_first=True,
        limit=limit,
    )


def runs_among(ids: Sequence[str]) -> Query[Run]:
    """The runs that exist among `ids`."""
    return RUNS.where(among("id", ids))


def live_runs(*, after: str | None, limit: int) -> Query[Run]:
    """Runs that have not ended, with an id above `after`, in order of id."""
    return RUNS.where(is_unset("ended_at"), above("id", after), limit=limit)


def ended_runs(*, before: float, limit: int) -> Query[Run]:
    """Runs that ended before then, those first that ended first; their steps go with them."""
    return RUNS.where(below("ended_at", before), order=("ended_at", "id"), limit=limit)


def steps_of(run_id: str) -> Query[RunStep]:
    """Rows of the steps of a run, in order of id; waiting steps may have none. They are found by
    their ids, which begin with that of the run, so no index is needed."""
    return RUN_STEPS.where(*within("id", f"{run_id}."))
