"""/api/v1/tasks"""

import re
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from crawlfleet.api.decoding import decode_body
from crawlfleet.api.presenting import (
    present_event,
    present_execution,
    present_receipt,
    present_task,
)
from crawlfleet.api.problems import Malformed, problem, problem_of
from crawlfleet.api.routing import OPERATORS, READERS, Call, Reply, Route, check_id
from crawlfleet.control.tasks import Submission
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.ids import ALPHABET, BODY_LENGTH, TASK
from crawlfleet.model.requests import CloneRequest, TaskRequest
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.views import (
    BatchItem,
    BatchReply,
    EventPage,
    ExecutionPage,
    TaskPage,
    TaskView,
)
from crawlfleet.ports.store import TaskFilter

MAX_BATCH: Final = 10_000
MAX_WAIT_S: Final = 60.0
CURSOR: Final = re.compile(rf"{TASK}-[{ALPHABET.decode()}]{{{BODY_LENGTH}}}\Z")


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many tasks at once; each is judged on its own."""

    tasks: list[msgspec.Raw]


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters; `status` may name several states, parted by commas."""

    status: str = ""
    project_id: str | None = None
    task_type: str | None = None
    workflow_id: str | None = None
    assigned_node: str | None = None
    dead: bool | None = None
    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class GetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    """Answer when the task has ended, or after so many seconds."""


class EventQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class PriorityRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: int


async def create(call: Call) -> Reply:
    outcome = await call.control.tasks.submit(call.body, by=call.caller.name)
    return _receipt(outcome)


async def create_batch(call: Call) -> BatchReply:
    items: list[msgspec.Raw] = call.body.tasks
    if not 1 <= len(items) <= MAX_BATCH:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="tasks",
                    value=len(items),
                    message=f"has {len(items)} entries",
                    remedy=f"send 1 to {MAX_BATCH} tasks at once",
                )
            ]
        )
    requests = [_decoded(item) for item in items]
    outcomes = await call.control.tasks.submit_batch(requests, by=call.caller.name)
    return BatchReply(
        items=[_item(outcome) for outcome in outcomes],
        deduplicated=sum(outcome.deduplicated for outcome in outcomes),
    )


async def find(call: Call) -> TaskPage:
    query: ListQuery = call.query
    tasks, cursor = await call.control.queries.find_tasks(
        TaskFilter(
            status=_states(query.status),
            project_id=query.project_id,
            task_type=query.task_type,
            workflow_id=query.workflow_id,
            assigned_node=query.assigned_node,
            dead=query.dead,
        ),
        after=_cursor(query.cursor),
        limit=query.limit,
    )
    return TaskPage(items=[present_task(task) for task in tasks], next_cursor=cursor)


async def get(call: Call) -> TaskView:
    return present_task(await call.control.tasks.wait(_id(call), call.query.wait))


async def executions(call: Call) -> ExecutionPage:
    attempts = await call.control.queries.executions(_id(call))
    return ExecutionPage(items=[present_execution(each) for each in attempts], next_cursor=None)


async def events(call: Call) -> EventPage:
    query: EventQuery = call.query
    found, cursor = await call.control.queries.task_events(
        _id(call), after=query.after, limit=query.limit
    )
    return EventPage(items=[present_event(each) for each in found], next_cursor=cursor)


async def explain(call: Call) -> Any:
    return await call.control.queries.explain(_id(call))


async def cancel(call: Call) -> TaskView:
    return present_task(await call.control.tasks.cancel(_id(call), by=call.caller.name))


async def pause(call: Call) -> TaskView:
    return present_task(await call.control.tasks.pause(_id(call), by=call.caller.name))


async def resume(call: Call) -> TaskView:
    return present_task(await call.control.tasks.resume(_id(call), by=call.caller.name))


async def retry(call: Call) -> TaskView:
    return present_task(await call.control.tasks.retry(_id(call), by=call.caller.name))


async def reprioritise(call: Call) -> TaskView:
    return present_task(
        await call.control.tasks.reprioritise(_id(call), call.body.priority, by=call.caller.name)
    )


async def clone(call: Call) -> Reply:
    return _receipt(await call.control.tasks.clone(_id(call), call.body, by=call.caller.name))


def _id(call: Call) -> str:
    return check_id("task", call.path["task_id"])


def _receipt(outcome: Submission) -> Reply:
    assert outcome.task is not None, "a submission without problems has a task"
    task = outcome.task
    return Reply(
        body=present_receipt(task, deduplicated=outcome.deduplicated),
        status=HTTPStatus.CREATED if outcome.created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/tasks/{task.id}"},
    )


def _decoded(item: msgspec.Raw) -> TaskRequest | FieldProblem:
    try:
        return decode_body(bytes(item), TaskRequest)
    except InvalidRequest as error:
        return error.problems[0]
    except Malformed as error:
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


def _cursor(text: str | None) -> str | None:
    if text is not None and not CURSOR.match(text):
        raise InvalidRequest(
            [
                FieldProblem(
                    field="cursor",
                    value=text,
                    message="is not a cursor",
                    remedy="send the next_cursor of the page before, or none for the first page",
                )
            ]
        )
    return text


def _states(text: str) -> tuple[TaskStatus, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(TaskStatus)]
    if unknown:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="status",
                    value=unknown[0][:40],
                    message="is not a state of tasks",
                    remedy=f"use one of {', '.join(TaskStatus)}",
                )
            ]
        )
    return tuple(TaskStatus(name) for name in names)


_TASK: Final = "/api/v1/tasks/{task_id}"

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/v1/tasks",
        roles=OPERATORS,
        handler=create,
        summary="Submit a task",
        body=TaskRequest,
    ),
    Route(
        method="POST",
        path="/api/v1/tasks:batch",
        roles=OPERATORS,
        handler=create_batch,
        summary="Submit up to 10,000 tasks, with an outcome for each",
        body=BatchRequest,
    ),
    Route(
        method="GET",
        path="/api/v1/tasks",
        roles=READERS,
        handler=find,
        summary="List tasks, newest first",
        query=ListQuery,
    ),
    Route(
        method="GET",
        path=_TASK,
        roles=READERS,
        handler=get,
        summary="The whole task",
        query=GetQuery,
    ),
    Route(
        method="GET",
        path=f"{_TASK}/executions",
        roles=READERS,
        handler=executions,
        summary="The attempts of a task, oldest first",
    ),
    Route(
        method="GET",
        path=f"{_TASK}/events",
        roles=READERS,
        handler=events,
        summary="What happened to a task, in order",
        query=EventQuery,
    ),
    Route(
        method="GET",
        path=f"{_TASK}:explain",
        roles=READERS,
        handler=explain,
        summary="Why a task is (not) running",
    ),
    Route(
        method="POST",
        path=f"{_TASK}:cancel",
        roles=OPERATORS,
        handler=cancel,
        summary="End a task; what runs of it is stopped",
    ),
    Route(
        method="POST",
        path=f"{_TASK}:pause",
        roles=OPERATORS,
        handler=pause,
        summary="Take a task out of the queue, or off its node",
    ),
    Route(
        method="POST",
        path=f"{_TASK}:resume",
        roles=OPERATORS,
        handler=resume,
        summary="Put a paused task back into the queue",
    ),
    Route(
        method="POST",
        path=f"{_TASK}:retry",
        roles=OPERATORS,
        handler=retry,
        summary="Send a task that did not succeed back to the queue",
    ),
    Route(
        method="POST",
        path=f"{_TASK}:reprioritise",
        roles=OPERATORS,
        handler=reprioritise,
        summary="Change the priority of a task that waits",
        body=PriorityRequest,
    ),
    Route(
        method="POST",
        path=f"{_TASK}:clone",
        roles=OPERATORS,
        handler=clone,
        summary="Submit the same task again, with other parameters",
        body=CloneRequest,
    ),
)
