"""/api/v1/workflows"""

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from crawlfleet.api.examples import workflows as examples
from crawlfleet.api.http.parameters import PageQuery, PageSize, check_id, check_name_cursor, invalid
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.features.workflows.model import Run
from crawlfleet.features.workflows.rules.document import schema
from crawlfleet.features.workflows.rules.validation import ordered
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.features.workflows.views import (
    RunView,
    StartRequest,
    SubmitRequest,
    Validation,
    VersionPage,
    VersionView,
    WorkflowPage,
    WorkflowProblem,
    WorkflowRequest,
    WorkflowView,
)


class WorkflowQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    project_id: str | None = None
    """List only workflows of this project."""
    name: str | None = None
    """List only the workflow with this name."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of workflows in the page."""


class WorkflowVersionQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    """Number of the version; 0 is the newest."""


async def find(call: Call) -> WorkflowPage:
    query: WorkflowQuery = call.query
    after = check_name_cursor(query.cursor)
    own = call.project_id
    if own is not None and query.project_id not in (None, own):
        return WorkflowPage(items=[], next_cursor=None)
    found = await call.service(Workflows).find(
        project_id=own if own is not None else query.project_id,
        name=query.name,
        after=after,
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    return WorkflowPage(
        items=[WorkflowView.of(each) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def save(call: Call) -> Reply:
    request: WorkflowRequest = call.body
    workflow, created = await call.service(Workflows).save(
        bytes(request.document), by=call.caller.name, project_id=call.project_id
    )
    return Reply(
        body=WorkflowView.of(workflow),
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/workflows/{workflow.id}"} if created else {},
    )


async def validate(call: Call) -> Validation:
    request: WorkflowRequest = call.body
    document, problems = await call.service(Workflows).check(
        bytes(request.document), project_id=call.project_id
    )
    return Validation(
        valid=not problems,
        problems=[
            WorkflowProblem(field=each.field, message=each.message, remedy=each.remedy)
            for each in problems
        ],
        steps=len(document.steps) if document else 0,
        order=ordered(document) if document and not problems else [],
    )


async def submit(call: Call) -> Reply:
    request: SubmitRequest = call.body
    workflow, _ = await call.service(Workflows).save(
        bytes(request.document), by=call.caller.name, project_id=call.project_id
    )
    run, created = await call.service(Workflows).start(
        workflow.id,
        request.parameters,
        by=call.caller.name,
        number=workflow.latest,
        key=request.idempotency_key,
        callback_url=request.callback_url,
    )
    return _started(run, created)


async def start(call: Call) -> Reply:
    request: StartRequest = call.body
    run, created = await call.service(Workflows).start(
        _id(call),
        request.parameters,
        by=call.caller.name,
        number=request.version,
        key=request.idempotency_key,
        callback_url=request.callback_url,
    )
    return _started(run, created)


def _started(run: Run, created: bool) -> Reply:
    return Reply(
        body=RunView.of(run),
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/runs/{run.id}"} if created else {},
    )


async def get(call: Call) -> WorkflowView:
    return WorkflowView.of(await call.service(Workflows).get(_id(call)))


async def document(call: Call) -> VersionView:
    query: WorkflowVersionQuery = call.query
    version = await call.service(Workflows).version(_id(call), query.version or None)
    return VersionView.of(version, whole=True)


async def versions(call: Call) -> VersionPage:
    query: PageQuery = call.query
    below = None
    if query.cursor is not None:
        if not query.cursor.isascii() or not query.cursor.isdigit() or len(query.cursor) > 9:
            raise invalid(
                "cursor", "is not a cursor", "send the next_cursor of the page before", query.cursor
            )
        below = int(query.cursor)
    found = await call.service(Workflows).versions(_id(call), below=below, limit=query.limit + 1)
    page = found[: query.limit]
    return VersionPage(
        items=[VersionView.of(each, whole=False) for each in page],
        next_cursor=str(page[-1].number) if len(found) > len(page) else None,
    )


async def published(call: Call) -> dict[str, Any]:
    return schema()


def _id(call: Call) -> str:
    return check_id("workflow", call.path["workflow_id"])


_WORKFLOW: Final = "/api/v1/workflows/{workflow_id}"

ROUTES: Final = (
    Route(
        name="list_workflows",
        method="GET",
        path="/api/v1/workflows",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='workflows(name="shop")',
        command="workflows list",
        summary="List workflows, in order of their making",
        query=WorkflowQuery,
        response=WorkflowPage,
    ),
    Route(
        name="save_workflow",
        method="POST",
        path="/api/v1/workflows",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=save,
        client="save_workflow(document)",
        command="workflows save",
        summary="Keep a workflow without running it",
        details="Answers 201 with `Location` for a new workflow or a new version of one, or "
        "200 when the newest version is the same.",
        body=WorkflowRequest,
        response=WorkflowView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.WORKFLOW_REQUEST, response=examples.WORKFLOW),
    ),
    Route(
        name="validate_workflow",
        method="POST",
        path="/api/v1/workflows:validate",
        roles=READERS,
        scope=Scope.OWN,
        handler=validate,
        client="validate_workflow(document)",
        command="workflows validate",
        summary="Say what is wrong with a workflow document",
        details="Nothing is made.",
        body=WorkflowRequest,
        response=Validation,
        is_audited=False,
        example=Example(request=examples.WORKFLOW_REQUEST, response=examples.VALIDATION),
    ),
    Route(
        name="submit_workflow",
        method="POST",
        path="/api/v1/workflows:submit",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=submit,
        client='submit_workflow(document, {"a": 1}, idempotency_key="k")',
        command="workflows submit",
        summary="Keep a workflow, and run it",
        details="Answers 201 with `Location`, or 200 when the same run was there before. "
        "`parameters` by name; the same `idempotency_key` gives the same run for a week. "
        "`callback_url` is [told of the "
        "run](../guides/webhooks.md#call-backs-of-one-task-or-one-run).",
        body=SubmitRequest,
        response=RunView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.SUBMIT_REQUEST, response=examples.RUN),
    ),
    Route(
        name="get_workflow_schema",
        method="GET",
        path="/api/v1/workflows:schema",
        roles=READERS,
        scope=Scope.OWN,
        handler=published,
        client="workflow_schema()",
        command="workflows schema",
        summary="The JSON schema of workflow documents",
        response=dict[str, Any],
    ),
    Route(
        name="get_workflow",
        method="GET",
        path=_WORKFLOW,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="workflow(workflow_id)",
        command="workflows show",
        summary="A workflow",
        response=WorkflowView,
        example=Example(response=examples.WORKFLOW),
    ),
    Route(
        name="get_workflow_document",
        method="GET",
        path=f"{_WORKFLOW}/document",
        roles=READERS,
        scope=Scope.PATH,
        handler=document,
        client="workflow_document(workflow_id, 2)",
        command="workflows show",
        summary="The document of a workflow, in its newest version or another",
        details="`version` names another than the newest (0).",
        query=WorkflowVersionQuery,
        response=VersionView,
    ),
    Route(
        name="list_workflow_versions",
        method="GET",
        path=f"{_WORKFLOW}/versions",
        roles=READERS,
        scope=Scope.PATH,
        handler=versions,
        client="workflow_versions(workflow_id)",
        command="workflows versions",
        summary="The versions of a workflow, newest first",
        details="Without their documents.",
        query=PageQuery,
        response=VersionPage,
    ),
    Route(
        name="start_workflow",
        method="POST",
        path=f"{_WORKFLOW}:start",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=start,
        client='start_workflow(workflow_id, {"a": 1}, version=2)',
        command="workflows start",
        summary="Run a workflow that is kept",
        details="Answers 201 with `Location`, or 200 when the same run was there before. "
        "`parameters` by name; `version` when it is not to be the newest; the same "
        "`idempotency_key` gives the same run for a week. `callback_url` is [told of the "
        "run](../guides/webhooks.md#call-backs-of-one-task-or-one-run).",
        body=StartRequest,
        response=RunView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.START_REQUEST, response=examples.RUN),
    ),
)
