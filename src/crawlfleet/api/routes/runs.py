"""/api/v1/runs"""

from typing import Annotated, Final

import msgspec

from crawlfleet.api.examples import workflows as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageSize, check_id, check_name_cursor, invalid
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.features.workflows.model import LIVE_RUN, Run, RunStatus, RunStep, StepStatus
from crawlfleet.features.workflows.rules.plan import PlannedStep
from crawlfleet.features.workflows.rules.runs import counted, first_instance_id, status_in
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.features.workflows.table import RunFilter
from crawlfleet.features.workflows.views import (
    MAX_WAIT_S,
    RerunRequest,
    RunPage,
    RunStepPage,
    RunStepView,
    RunView,
)


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    project_id: str | None = None
    """List only runs of this project."""
    workflow_id: str | None = None
    """List only runs of this workflow."""
    status: str | None = None
    """List only runs in this state."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of runs in the page."""


class RunQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    """Wait up to this many seconds for the end of the run."""


class StepsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: str | None = None
    """List only steps in this state."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of steps in the page."""


async def find(call: Call) -> RunPage:
    query: RunsQuery = call.query
    after = check_name_cursor(query.cursor)
    own = call.project_id
    if own is not None and query.project_id not in (None, own):
        return RunPage(items=[], next_cursor=None)
    wanted = RunFilter(
        project_id=own if own is not None else query.project_id,
        workflow_id=query.workflow_id,
        status=_state(query.status),
    )
    found = await call.service(Workflows).find_runs(wanted, after=after, limit=query.limit + 1)
    page = found[: query.limit]
    return RunPage(
        items=[RunView.of(each) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


def _state(text: str | None) -> RunStatus | None:
    if text is None or text in {*RunStatus}:
        return None if text is None else RunStatus(text)
    raise invalid(
        "status", "is not a state of runs", f"use one of {', '.join(RunStatus)}", text[:40]
    )


async def get(call: Call) -> Reply:
    query: RunQuery = call.query
    return await _reply(call, await call.service(Workflows).wait(_id(call), query.wait))


async def steps(call: Call) -> RunStepPage:
    query: StepsQuery = call.query
    run = await call.service(Workflows).run(_id(call))
    plan, rows = await call.service(Workflows).standing(run)
    first = 0
    if query.cursor is not None:
        if query.cursor not in plan.places:
            raise invalid(
                "cursor", "is not a cursor", "send the next_cursor of the page before", query.cursor
            )
        first = plan.places[query.cursor] + 1
    wanted = _step_state(query.status)
    found = [
        step
        for step in plan.steps[first:]
        if wanted is None or status_in(run, rows.get(step.place)) == wanted
    ]
    page = found[: query.limit]
    shown = [rows[step.place] for step in page if step.place in rows]
    tallies = await call.service(Workflows).count_instances(run, shown)
    return RunStepPage(
        items=[_step(run, step, rows.get(step.place), tallies.get(step.name)) for step in page],
        next_cursor=page[-1].name if len(found) > len(page) else None,
    )


def _step(
    run: Run, planned: PlannedStep, row: RunStep | None, tally: tuple[int, int] | None
) -> RunStepView:
    return RunStepView.of(
        planned.name,
        planned.step,
        row,
        status=status_in(run, row),
        task_id=first_instance_id(run, row) if row and row.count else None,
        tally=tally,
    )


def _step_state(text: str | None) -> str | None:
    if text is None or text in {*StepStatus}:
        return text
    raise invalid(
        "status", "is not a state of steps", f"use one of {', '.join(StepStatus)}", text[:40]
    )


async def cancel(call: Call) -> Reply:
    run = await call.service(Workflows).cancel(
        _id(call), by=call.caller.name, if_version=wanted_version(call)
    )
    return await _reply(call, run)


async def rerun(call: Call) -> Reply:
    request: RerunRequest = call.body
    run = await call.service(Workflows).rerun(
        _id(call), request.steps, by=call.caller.name, if_version=wanted_version(call)
    )
    return await _reply(call, run)


async def _reply(call: Call, run: Run) -> Reply:
    counts = None
    if run.status in LIVE_RUN:
        plan, rows = await call.service(Workflows).standing(run)
        counts = counted(run, plan, rows)
    return tagged(call, RunView.of(run, counts), run.version, volatile=run.status in LIVE_RUN)


def _id(call: Call) -> str:
    return check_id("run", call.path["run_id"])


_RUN: Final = "/api/v1/runs/{run_id}"

ROUTES: Final = (
    Route(
        name="list_runs",
        method="GET",
        path="/api/v1/runs",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='runs(status="failed")',
        command="workflows runs",
        summary="List runs of workflows, newest first",
        query=RunsQuery,
        response=RunPage,
    ),
    Route(
        name="get_run",
        method="GET",
        path=_RUN,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="workflow_run(run_id, wait_s=1.0)",
        command="workflows show",
        summary="A run, and how many of its steps are where",
        details="`wait` waits up to 60 seconds for its end.",
        query=RunQuery,
        response=RunView,
        etag=True,
        example=Example(response=examples.RUN),
    ),
    Route(
        name="list_run_steps",
        method="GET",
        path=f"{_RUN}/steps",
        roles=READERS,
        scope=Scope.PATH,
        handler=steps,
        client="run_steps(run_id)",
        command="workflows show",
        summary="The steps of a run in the order of the document: its graph, and how each stands",
        details="A step's `depends_on` are the edges of the graph; `done` and `undone` say how "
        "many of its `count` instances completed, and how many ended otherwise. All tasks of a "
        "run are listed by `GET /api/v1/tasks?workflow_id=RUN`.",
        query=StepsQuery,
        response=RunStepPage,
        example=Example(response=examples.STEP_PAGE),
    ),
    Route(
        name="cancel_run",
        method="POST",
        path=f"{_RUN}:cancel",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=cancel,
        client="cancel_run(run_id, if_version=2)",
        command="workflows cancel",
        summary="Begin no more steps of a run, and stop those at work",
        details="`If-Match` is honoured.",
        response=RunView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="rerun_run",
        method="POST",
        path=f"{_RUN}:rerun",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=rerun,
        client='rerun(run_id, ["a"])',
        command="workflows rerun",
        summary="Let a run that has ended go on from what failed, or from chosen steps",
        details="Of a step that failed only the tasks that did not complete are done again; "
        "steps after it are decided on anew. Chosen steps are done anew with all after them. "
        "`If-Match` is honoured.",
        body=RerunRequest,
        response=RunView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.RERUN_REQUEST),
    ),
)
