"""Workflows and runs for tests of stores."""

from typing import Any, Final

import msgspec

from crawlfleet.features.workflows.model import (
    Run,
    RunStatus,
    RunStep,
    StepStatus,
    Workflow,
    WorkflowVersion,
    step_row_id,
    version_row_id,
)
from crawlfleet.model.task import Callback
from crawlfleet.testing.store_suite.samples import AWKWARD, NOW, _make


def make_workflow(number: int = 1, **fields: Any) -> Workflow:
    return _make(
        Workflow,
        fields,
        id=f"flow-{number:04}",
        project_id="default",
        name=f"workflow-{number}",
        created_at=NOW,
        updated_at=NOW,
    )


def make_version(number: int = 1, workflow_id: str = "flow-0001", **fields: Any) -> WorkflowVersion:
    return _make(
        WorkflowVersion,
        fields,
        id=version_row_id(workflow_id, number),
        workflow_id=workflow_id,
        number=number,
        created_at=NOW,
        document=msgspec.Raw(b'{"name": "x",  "steps": {}}'),
    )


def make_run(place: int = 1, **fields: Any) -> Run:
    return _make(
        Run,
        fields,
        id=f"run-{place:04}",
        project_id="default",
        workflow_id="flow-0001",
        name="workflow-1",
        number=1,
        created_at=NOW,
        updated_at=NOW,
    )


def make_run_step(step: str = "fetch", run_id: str = "run-0001", **fields: Any) -> RunStep:
    return _make(
        RunStep,
        fields,
        id=step_row_id(run_id, step),
        run_id=run_id,
        step=step,
        status=StepStatus.RUNNING,
        updated_at=NOW,
    )


FULL_WORKFLOW: Final = make_workflow(
    project_id="shop", description=AWKWARD, latest=7, steps=10_000, digest="abc"
)
FULL_VERSION: Final = make_version(7, made_by=AWKWARD, created_at=NOW + 0.25)
FULL_RUN: Final = make_run(
    project_id="shop",
    number=7,
    status=RunStatus.CANCELLED,
    ended_at=NOW + 2.5,
    parameters=msgspec.Raw('{"u":"爬虫","n":1.10}'.encode()),
    steps=3,
    counts={"completed": 2, "cancelled": 1},
    attempt=4,
    cause=AWKWARD,
    error=AWKWARD,
    idempotency_key="key",
    callback=Callback(url="https://flow.example/x?y=1", webhook_id="hook-0001"),
)
FULL_RUN_STEP: Final = make_run_step(
    status=StepStatus.FAILED,
    attempt=3,
    count=10_000,
    started_at=NOW,
    ended_at=NOW + 0.5,
    reason=AWKWARD,
)
