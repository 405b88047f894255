"""Drafts the tasks and workflow runs that schedules start.

Both are only drafted here, since they are written in one change with the firing that starts them.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec

from crawlfleet.control.quotas import QuotaIntake
from crawlfleet.control.state.if_version import accept
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from crawlfleet.features.schedules.model import Schedule, WorkflowCall
from crawlfleet.features.schedules.rules import schedules
from crawlfleet.features.schedules.views import ScheduledWorkflow
from crawlfleet.features.workflows.model import LIVE_RUN, Workflow
from crawlfleet.features.workflows.service import Workflows, given_problems
from crawlfleet.features.workflows.table import WORKFLOWS, find_workflows, runs_among
from crawlfleet.model.change import Change
from crawlfleet.model.ids import RUN
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import TERMINAL
from crawlfleet.ports.store import Store


class ScheduleStarter:
    """Drafts the tasks and runs of schedules, and finds those still at work."""

    def __init__(self, *, store: Store, tasks: Tasks, workflows: Workflows) -> None:
        self._store = store
        self._tasks = tasks
        self._workflows = workflows

    async def accept_task(self, request: TaskRequest, *, by: str) -> None:
        """Raise `InvalidRequest` if such a task would not be accepted; its project is made."""
        await self._tasks.accept_template(request, by=by)

    async def accept_workflow(self, wanted: ScheduledWorkflow) -> tuple[WorkflowCall, str]:
        """The workflow as a schedule keeps it, and its project.

        Raises `InvalidRequest` if it could not be run now.
        """
        workflow = await self._workflow(wanted)
        number = workflow.latest if wanted.version is None else wanted.version
        plan = await self._workflows.plan(workflow.id, number)
        if plan is None:
            raise InvalidRequest([_no_version(workflow, number)])
        raw = msgspec.json.encode(wanted.parameters)
        accept(given_problems(plan, wanted.parameters, raw, "workflow.parameters"))
        call = WorkflowCall(
            id=workflow.id,
            name=workflow.name,
            number=wanted.version,
            parameters=wanted.parameters,
        )
        return call, workflow.project_id

    async def _workflow(self, wanted: ScheduledWorkflow) -> Workflow:
        project_id = wanted.project_id or DEFAULT_PROJECT
        found = await self._store.find(
            find_workflows(project_id=project_id, name=wanted.name, after=None, limit=1)
        )
        if found:
            return found[0]
        by_id = await self._store.get(WORKFLOWS, wanted.name)
        if by_id is not None and wanted.project_id in (None, by_id.project_id):
            return by_id
        raise InvalidRequest([_no_workflow(wanted.name, project_id)])

    def intake(self) -> AbstractContextManager[QuotaIntake]:
        """Open an intake: drafts made within it count for the quotas of later drafts."""
        return self._tasks.quotas.intake()

    async def drafts(
        self, schedule: Schedule, count: int, intake: QuotaIntake
    ) -> list[Change | str]:
        """Draft the schedule's task or run `count` times; each result is a change to commit, or the
        reason for a refusal."""
        return [await self._draft(schedule, intake) for _ in range(count)]

    async def _draft(self, schedule: Schedule, intake: QuotaIntake) -> Change | str:
        by = called(schedule)
        call = schedule.workflow
        if call is None:
            request = schedules.request_of(schedule)
            return await self._tasks.draft(request, by=by, intake=intake)
        try:
            return await self._workflows.draft(call.id, call.parameters, by=by, number=call.number)
        except (Conflict, InvalidRequest, NotFound) as refused:
            return str(refused)

    async def living(self, found: Sequence[Schedule]) -> dict[str, list[str]]:
        """Return, for each schedule id, the ids of its tasks and runs that have not ended."""
        ids = {id for schedule in found for id in schedule.running}
        of_runs = sorted(id for id in ids if id.startswith(f"{RUN}-"))
        of_tasks = sorted(ids.difference(of_runs))
        tasks = await self._store.task_states(of_tasks) if of_tasks else {}
        runs = (
            dict(await self._store.values(runs_among(of_runs), "id", "status")) if of_runs else {}
        )
        alive = {id for id, status in tasks.items() if status not in TERMINAL}
        alive.update(id for id, status in runs.items() if status in LIVE_RUN)
        return {each.id: [id for id in each.running if id in alive] for each in found}


def called(schedule: Schedule) -> str:
    """Return the name of a schedule as the submitter of tasks and runs."""
    return f"the schedule {schedule.name} ({schedule.id})"


def held_back(schedule: Schedule) -> str:
    """Why a task of it is not accepted while another has its key."""
    key = None if schedule.workflow else schedules.request_of(schedule).dedup_key
    return f"the same work (dedup_key {key!r}) is under way, or was just done"


def _no_workflow(name: str, project_id: str) -> FieldProblem:
    return FieldProblem(
        field="workflow.name",
        value=name[:100],
        message=f"is no workflow of the project {project_id!r}",
        remedy="name one of `crawlfleet workflows list` and its project_id, or keep it first: "
        "`crawlfleet workflows save FILE`",
    )


def _no_version(workflow: Workflow, number: int) -> FieldProblem:
    return FieldProblem(
        field="workflow.version",
        value=number,
        message=f"is no version of {workflow.name}",
        remedy=f"use one from 1 to {workflow.latest}, or leave it out for the newest",
    )
