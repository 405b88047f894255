"""Draws workflows and their runs."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.output import cell, facts, heading, moment, state, table, tree
from crawlfleet.features.workflows.views import (
    RunStepView,
    RunView,
    Validation,
    VersionView,
    WorkflowView,
)

ORDER = ("completed", "running", "held", "waiting", "failed", "cancelled", "skipped")


def draw_workflows(workflows: Sequence[WorkflowView]) -> Table:
    """Workflows, one a line."""
    return table(
        ("id", "name", "project", "version", "steps", "changed", "description"),
        (
            [
                cell(each.id),
                cell(each.name),
                cell(each.project_id),
                cell(each.latest),
                cell(each.steps),
                moment(each.updated_at),
                cell(each.description),
            ]
            for each in workflows
        ),
        flexible=("description",),
    )


def draw_version(workflow: WorkflowView, version: VersionView) -> RenderableType:
    """A workflow, and its document."""
    known = facts(
        [
            ("id", cell(workflow.id)),
            ("name", cell(workflow.name)),
            ("project", cell(workflow.project_id)),
            ("version", cell(f"{version.number} of {workflow.latest}")),
            ("made", moment(version.created_at)),
            ("made by", cell(version.made_by)),
        ]
    )
    return Group(known, heading("Document"), tree(msgspec.to_builtins(version.document)))


def draw_versions(versions: Sequence[VersionView]) -> Table:
    """Versions, one a line."""
    return table(
        ("version", "made", "by"),
        ([cell(each.number), moment(each.created_at), cell(each.made_by)] for each in versions),
    )


def draw_runs(runs: Sequence[RunView]) -> Table:
    """Runs, one a line."""
    return table(
        ("id", "workflow", "version", "status", "project", "steps", "started", "ended", "error"),
        (
            [
                cell(each.id),
                cell(each.name),
                cell(each.workflow_version),
                state(each.status),
                cell(each.project_id),
                cell(each.steps),
                moment(each.created_at),
                moment(each.ended_at),
                cell(each.error),
            ]
            for each in runs
        ),
        flexible=("error",),
    )


def draw_run(run: RunView, steps: Sequence[RunStepView]) -> RenderableType:
    """A run with its steps."""
    known = facts(
        [
            ("id", cell(run.id)),
            ("workflow", cell(f"{run.name} version {run.workflow_version}")),
            ("status", state(run.status)),
            ("steps", cell(told(run))),
            ("project", cell(run.project_id)),
            ("attempt", cell(run.attempt) if run.attempt > 1 else None),
            ("cause", cell(run.cause)),
            ("error", cell(run.error, lines=True)),
            ("started", moment(run.created_at)),
            ("ended", moment(run.ended_at) if run.ended_at else None),
        ]
    )
    parts: list[RenderableType] = [known]
    if run.parameters:
        parts += [heading("Parameters"), tree(run.parameters)]
    if steps:
        parts += [heading("Steps"), draw_steps(steps)]
    return Group(*parts)


def draw_steps(steps: Iterable[RunStepView]) -> Table:
    """Steps, one a line."""
    return table(
        ("step", "status", "type", "after", "tasks", "started", "ended", "reason"),
        (
            [
                cell(each.name),
                state(each.status),
                cell(each.task_type),
                cell(", ".join(_after(each))),
                cell(each.task_id if each.count == 1 else _instances(each)),
                moment(each.started_at),
                moment(each.ended_at),
                cell(each.reason),
            ]
            for each in steps
        ),
        flexible=("reason",),
    )


def _instances(step: RunStepView) -> str:
    """`40`, or `12 of 40` while they are at work."""
    if step.status != "running" or step.done is None:
        return str(step.count)
    return f"{step.done + (step.undone or 0)} of {step.count}"


def _after(step: RunStepView) -> list[str]:
    return [
        each.step if each.on == "success" else f"{each.step} ({each.on})"
        for each in step.depends_on
    ]


def told(run: RunView) -> str:
    """Return the number of steps in each state, such as `3 completed, 1 running`."""
    parts = [f"{run.counts[name]} {name}" for name in ORDER if run.counts.get(name)]
    return ", ".join(parts) or str(run.steps)


def draw_validation(found: Validation) -> RenderableType:
    """Draw whether a document may run, and the problems in it."""
    if found.valid:
        return cell(f"valid: {found.steps} steps", "green")
    rows = ([cell(each.field), cell(each.message), cell(each.remedy)] for each in found.problems)
    return table(("field", "what is wrong", "what to do"), rows, flexible=("what is wrong",))
