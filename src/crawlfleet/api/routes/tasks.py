"""/api/v1/tasks"""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from crawlfleet.api.examples import tasks as examples
from crawlfleet.api.http.decoding import decode_body
from crawlfleet.api.http.etags import tagged
from crawlfleet.api.http.parameters import (
    EventNumber,
    PageSize,
    check_cursor,
    check_id,
    invalid,
    parse_states,
    restricted,
)
from crawlfleet.api.http.problems import MalformedBody, problem, problem_of
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.events.stream import EventFilter, Events
from crawlfleet.control.logs.executions import Logs
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.tasks.service import Submission, Tasks
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.requests import MAX_BATCH, BatchRequest, CloneRequest, TaskRequest
from crawlfleet.model.task import TERMINAL
from crawlfleet.ports.store import TaskFilter
from crawlfleet.views.events import EventPage, EventView
from crawlfleet.views.executions import ExecutionPage, ExecutionView
from crawlfleet.views.tasks import (
    BatchItem,
    BatchReply,
    TaskExplanation,
    TaskPage,
    TaskReceipt,
    TaskView,
)

MAX_WAIT_S: Final = 60.0


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    status: str = ""
    """List only tasks in these states, separated by commas."""
    project_id: str | None = None
    """List only tasks of this project."""
    cluster_id: str | None = None
    """List only tasks of this cluster."""
    task_type: str | None = None
    """List only tasks of this type."""
    workflow_id: str | None = None
    """List only tasks of this workflow."""
    assigned_node: str | None = None
    """List only tasks that are, or were last, on this node."""
    parent_id: str | None = None
    """List only the shards of this task."""
    dead: bool | msgspec.UnsetType = msgspec.UNSET
    """List only tasks that are (or are not) dead letters."""
    brief: bool = False
    """Leave out results, and parameters of more than 2,000 bytes (they become `null`)."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of tasks in the page."""


class GetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    """Answer when the task has ended, or after this many seconds."""


class EventQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: EventNumber = 0
    """List only events with a higher number."""
    limit: PageSize = 100
    """Maximum number of events in the page."""


async def create(call: Call) -> Reply:
    request = in_scope(call, call.body)
    if isinstance(request, FieldProblem):
        raise InvalidRequest([request])
    return _receipt(await call.service(Tasks).submit(request, by=call.caller.name))


async def create_batch(call: Call) -> BatchReply:
    items: list[msgspec.Raw] = call.body.tasks
    if not 1 <= len(items) <= MAX_BATCH:
        raise invalid(
            "tasks",
            f"has {len(items)} entries",
            f"send 1 to {MAX_BATCH} tasks at once",
            len(items),
        )
    requests = [in_scope(call, _decoded(item)) for item in items]
    outcomes = await call.service(Tasks).submit_batch(requests, by=call.caller.name)
    return BatchReply(
        items=[_item(outcome) for outcome in outcomes],
        deduplicated=sum(outcome.deduplicated for outcome in outcomes),
    )


async def find(call: Call) -> TaskPage:
    query: ListQuery = call.query
    filter = restricted(
        TaskFilter(
            status=parse_states(query.status),
            project_id=query.project_id,
            cluster_id=query.cluster_id,
            task_type=query.task_type,
            workflow_id=query.workflow_id,
            assigned_node=query.assigned_node,
            dead=None if query.dead is msgspec.UNSET else query.dead,
            parent_id=query.parent_id,
        ),
        call.project_id,
    )
    if filter is None:
        return TaskPage(items=[], next_cursor=None)
    tasks, cursor = await call.service(TaskQueries).find_tasks(
        filter,
        after=check_cursor(query.cursor),
        limit=query.limit,
        with_results=not query.brief,
    )
    present = TaskView.brief if query.brief else TaskView.of
    return TaskPage(items=[present(task) for task in tasks], next_cursor=cursor)


async def get(call: Call) -> Reply:
    task = await call.service(Tasks).wait(_id(call), call.query.wait)
    if task.is_parent:
        shards = await call.service(TaskQueries).shards(task.id)
        progress = None if task.status in TERMINAL else call.service(Logs).sum_up(task.id, shards)
        view = TaskView.of(task, progress, shards)
        return tagged(call, view, task.version, volatile=task.status not in TERMINAL)
    progress = call.service(Logs).progress(task.execution_id)
    view = TaskView.of(task, progress)
    return tagged(call, view, task.version, volatile=progress is not None)


async def executions(call: Call) -> ExecutionPage:
    attempts = await call.service(TaskQueries).executions(_id(call))
    progress = call.service(Logs).progress
    items = [ExecutionView.of(each, progress(each.id)) for each in attempts]
    return ExecutionPage(items=items, next_cursor=None)


async def events(call: Call) -> EventPage:
    query: EventQuery = call.query
    task = await call.service(Tasks).get(_id(call))
    found, cursor = await call.service(Events).find(
        EventFilter(subject=task.id), after=query.after, limit=query.limit
    )
    return EventPage(items=[EventView.of(each) for each in found], next_cursor=cursor)


async def explain(call: Call) -> TaskExplanation:
    own = call.project_id
    hidden = None if own is None else call.service(Clusters).hidden_from(own)
    return await call.service(TaskQueries).explain(_id(call), hidden=hidden)


async def clone(call: Call) -> Reply:
    return _receipt(await call.service(Tasks).clone(_id(call), call.body, by=call.caller.name))


def in_scope(call: Call, request: TaskRequest | FieldProblem) -> TaskRequest | FieldProblem:
    """The request in the project that the caller's key is bound to, if it is."""
    own = call.project_id
    if own is None or isinstance(request, FieldProblem) or request.project_id == own:
        return request
    if request.project_id != DEFAULT_PROJECT:
        return FieldProblem(
            field="project_id",
            message="is not the project that this key is bound to",
            remedy=f"leave it out, or send {own}",
            value=request.project_id,
        )
    return msgspec.structs.replace(request, project_id=own)


def _id(call: Call) -> str:
    return check_id("task", call.path["task_id"])


def _receipt(outcome: Submission) -> Reply:
    assert outcome.task is not None, "a submission without problems has a task"
    task = outcome.task
    return Reply(
        body=TaskReceipt.of(task, deduplicated=outcome.deduplicated),
        status=HTTPStatus.CREATED if outcome.created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/tasks/{task.id}"},
    )


def _decoded(item: msgspec.Raw) -> TaskRequest | FieldProblem:
    try:
        return decode_body(bytes(item), TaskRequest)
    except InvalidRequest as error:
        return error.problems[0]
    except MalformedBody as error:
        return FieldProblem(field="(body)", message=str(error), remedy="send a JSON object")


def _item(outcome: Submission) -> BatchItem:
    if outcome.problems:
        return BatchItem(error=problem_of(InvalidRequest(outcome.problems)))
    if outcome.task is None:
        return BatchItem(error=problem(HTTPStatus.CONFLICT, "conflict", outcome.conflict))
    return BatchItem(
        id=outcome.task.id,
        status=str(outcome.task.status),
        deduplicated=outcome.deduplicated,
    )


_TASK: Final = "/api/v1/tasks/{task_id}"

ROUTES: Final = (
    Route(
        name="create_task",
        method="POST",
        path="/api/v1/tasks",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create,
        client='submit("http_fetch", {"url": "https://example.com/"})',
        command="submit",
        summary="Submit a task",
        details='Answers 201 with `Location`, or 200 with `"deduplicated": 1` when the task was '
        "there before. The fields in full: [executors](../guides/executors.md) for `task_type` and "
        "`parameters`, [bundles](../guides/bundles.md), [secrets](../guides/secrets.md) and how "
        "parameters [refer to them](../guides/secrets.md#in-parameters), "
        "[isolation](../guides/sandbox.md), [retries](../guides/retries.md) and "
        "[targets that are down](../guides/retries.md#sites-that-are-down), "
        "[expectations](../guides/quality.md), "
        "[call-backs](../guides/webhooks.md#call-backs-of-one-task-or-one-run).",
        body=TaskRequest,
        response=TaskReceipt,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.TASK_REQUEST, response=examples.TASK_RECEIPT),
    ),
    Route(
        name="create_tasks",
        method="POST",
        path="/api/v1/tasks:batch",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create_batch,
        client='submit_batch([{"task_type": "sleep", "parameters": {"seconds": 1}}])',
        command="submit",
        summary="Submit up to 10,000 tasks, with an outcome for each",
        details="Each task is judged on its own, and those that are good are taken in one "
        "commit; the outcomes stand in the order of the tasks.",
        body=BatchRequest,
        response=BatchReply,
        example=Example(request=examples.BATCH_REQUEST, response=examples.BATCH_REPLY),
    ),
    Route(
        name="list_tasks",
        method="GET",
        path="/api/v1/tasks",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='tasks(status="failed")',
        command="tasks list",
        summary="List tasks, newest first",
        details="`dead=true` is the dead-letter list, `parent_id` the shards of a task. The "
        "items are whole tasks; with `brief=true` they come without results, and without "
        "parameters of more than 2,000 bytes.",
        query=ListQuery,
        response=TaskPage,
        example=Example(response=examples.SHARDS),
    ),
    Route(
        name="get_task",
        method="GET",
        path=_TASK,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="task(task_id)",
        command="tasks show",
        summary="The whole task",
        details="`?wait=30` answers when the task has ended, or as it is after so many seconds "
        "(at most 60). Fields that are not set are left out.\n\n"
        "A task that did not succeed has `error` (`error_class`, `message`, `details`), and "
        "`dead_reason` once it will not be tried again. While it runs, a task that says how far "
        "it has got has `progress` (`done`, `total`, `at`). A task that was "
        "[split](../guides/sharding.md) has `shards`, their number, and `shard_states`, how "
        "many of them are in which state; each of them has `parent_id`, `shard` and `shards`. "
        "The states are in [concepts](../concepts.md#task).",
        query=GetQuery,
        response=TaskView,
        etag=True,
        example=Example(response=examples.TASK),
    ),
    Route(
        name="list_task_executions",
        method="GET",
        path=f"{_TASK}/executions",
        roles=READERS,
        scope=Scope.PATH,
        handler=executions,
        client="executions(task_id)",
        command="tasks executions",
        summary="The attempts of a task, oldest first",
        response=ExecutionPage,
        example=Example(response=examples.EXECUTIONS),
    ),
    Route(
        name="list_task_events",
        method="GET",
        path=f"{_TASK}/events",
        roles=READERS,
        scope=Scope.PATH,
        handler=events,
        client="events(task_id)",
        command="tasks events",
        summary="What happened to a task, in order",
        query=EventQuery,
        response=EventPage,
        example=Example(response=examples.EVENTS),
    ),
    Route(
        name="explain_task",
        method="GET",
        path=f"{_TASK}:explain",
        roles=READERS,
        scope=Scope.PATH,
        handler=explain,
        client="explain(task_id)",
        command="explain",
        summary="Why a task is (not) running",
        details="`summary` is one sentence; `placement` says for each node (at most a hundred, "
        "the closest first) what speaks against it. In `causes` each node counts once, first "
        "under what lasts until somebody changes it (no executor, another type or cluster, "
        "capabilities, too small), else under what passes (`status`, `health`, `resources`); "
        "`rejected` counts each node under the first filter that says no, as placement asks "
        "them. Programs go by `code` and `values` rather than by the sentences: `not_online`, "
        "`not_healthy` (with `because`), `other_cluster`, `cluster_closed`, `no_executor`, "
        "`other_type`, `capability_missing`, `level_missing`, `names_missing`, `too_small`, "
        "`taken`; a plug-in's reason has its `filter` alone. For a key of one project the nodes "
        "of other projects' clusters are left out, other projects are not named "
        "(`kept_for_another`), and there is no `ready_tasks`. For a task that was split, "
        "`shards` says how many of its shards are in which state.",
        response=TaskExplanation,
        example=Example(response=examples.EXPLANATION),
    ),
    Route(
        name="clone_task",
        method="POST",
        path=f"{_TASK}:clone",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=clone,
        client="clone(task_id)",
        command="tasks clone",
        summary="Submit the same task again, with other parameters",
        details="What is left out of `parameters` and `priority` is taken from the original; "
        "its keys are not. The answer is that of a submission. With an `idempotency_key` of its "
        "own it may be sent again.",
        body=CloneRequest,
        response=TaskReceipt,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.CLONE_REQUEST),
    ),
)
