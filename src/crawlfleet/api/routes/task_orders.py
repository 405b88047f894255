"""Orders for tasks: for one task by its id, or for many by ids or a filter."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import check_cursor, check_id, invalid, is_id, restricted
from crawlfleet.api.http.routing import (
    OPERATORS,
    Call,
    Example,
    Handler,
    Nothing,
    Reply,
    Route,
    Scope,
)
from crawlfleet.control.tasks.orders import OrderOutcome, TaskOrders
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import NotFound
from crawlfleet.model.admin_requests import DeadLetterRequest
from crawlfleet.model.requests import (
    MAX_BATCH,
    BulkPriorityRequest,
    BulkRequest,
    PriorityRequest,
    TaskSelection,
)
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import TaskFilter
from crawlfleet.views.tasks import BulkReply, RefusedOrder, TaskView

MAX_REFUSALS: Final = 100
"""Maximum number of refusals that are listed; the others are only counted."""


class _Words(NamedTuple):
    """Texts in the documentation of the routes of one verb."""

    one: str
    one_details: str
    many: str


_WORDS: Final = {
    Verb.CANCEL: _Words(
        "End a task; what runs of it is stopped",
        "",
        "End many tasks; what runs of them is stopped",
    ),
    Verb.PAUSE: _Words(
        "Take a task out of the queue, or off its node",
        "No retry is used up.",
        "Take many tasks out of the queue, or off their nodes",
    ),
    Verb.RESUME: _Words(
        "Put a paused task back into the queue", "", "Put many paused tasks back into the queue"
    ),
    Verb.RETRY: _Words(
        "Send a task that did not succeed back to the queue",
        "Its counters begin anew.",
        "Send many tasks that did not succeed back to the queue",
    ),
    Verb.REPRIORITISE: _Words(
        "Change the priority of a task that waits", "", "Change the priority of many tasks"
    ),
}
_ONE_DETAILS: Final = (
    "Answers with the whole task. An order that was carried out before is no error; one that does "
    "not fit the state is a 409."
)
_MANY_DETAILS: Final = (
    "Name up to 10,000 `ids`, or a `filter` in which at least one field is set; "
    '`{"dead": true}` is the whole dead-letter list.\n\n'
    "`unchanged` were already as ordered. `refused` are those that the order does not fit, or that "
    "do not exist: the first 100, and `refused_count` is the number of all. One request goes "
    "through up to `limit` (10,000) of the filter's tasks, oldest first; where there are more, "
    "send `next_cursor` as `cursor` to go on. The work is done in portions, each of them durable "
    "by itself: when the connection breaks, send the same again."
)


def _one(verb: Verb) -> Handler:
    async def handle(call: Call) -> Reply:
        task = await call.service(TaskOrders).carry_out_one(
            _order(verb, call),
            check_id("task", call.path["task_id"]),
            if_version=wanted_version(call),
        )
        return tagged(call, TaskView.of(task), task.version)

    return handle


def _many(verb: Verb) -> Handler:
    async def handle(call: Call) -> BulkReply:
        return await carry_out_many(call, _order(verb, call), _filter)

    return handle


async def carry_out_many(
    call: Call, order: TaskOrder, filter_of: Callable[[Any], TaskFilter]
) -> BulkReply:
    """Carry out an order about the tasks that a request names, or that its filter chooses."""
    request: BulkRequest | DeadLetterRequest = call.body
    if (request.filter is None) == (not request.ids):
        raise invalid("ids", "and filter: one of them is needed", "send ids, or a filter")
    if request.filter is None:
        return _summary(await _by_ids(call, order, request.ids), None)
    filter = restricted(filter_of(request.filter), call.project_id)
    if filter is None:
        return _summary([], None)
    outcomes, cursor = await call.service(TaskOrders).carry_out_where(
        order, filter, after=check_cursor(request.cursor), limit=request.limit
    )
    return _summary(outcomes, cursor)


def _order(verb: Verb, call: Call) -> TaskOrder:
    return TaskOrder(
        verb=verb,
        by=call.caller.name,
        priority=getattr(call.body, "priority", None),
        project_id=call.project_id,
    )


async def _by_ids(call: Call, order: TaskOrder, ids: Sequence[str]) -> list[OrderOutcome]:
    """Carry out the order for each of these tasks, and return the outcomes."""
    if len(ids) > MAX_BATCH:
        raise invalid(
            "ids", f"has {len(ids)} entries", f"send 1 to {MAX_BATCH} ids at once", len(ids)
        )
    nobody = [id for id in ids if not is_id(id)]
    outcomes = await call.service(TaskOrders).carry_out(order, [id for id in ids if is_id(id)])
    return outcomes + [
        OrderOutcome(task_id=id[:100], refusal=NotFound("task", id[:100])) for id in nobody
    ]


def _filter(selection: TaskSelection) -> TaskFilter:
    if selection == TaskSelection():
        raise invalid(
            "filter", "names nothing", f"name something; all states are {', '.join(TaskStatus)}"
        )
    states = selection.status
    return TaskFilter(
        status=(states,) if isinstance(states, TaskStatus) else states,
        project_id=selection.project_id,
        cluster_id=selection.cluster_id,
        task_type=selection.task_type,
        workflow_id=selection.workflow_id,
        assigned_node=selection.assigned_node,
        dead=selection.dead,
        parent_id=selection.parent_id,
    )


def _summary(outcomes: Sequence[OrderOutcome], cursor: str | None) -> BulkReply:
    """The answer to an order about many tasks."""
    refused = [(each.task_id, each.refusal) for each in outcomes if each.refusal is not None]
    changed = Counter(each.changed for each in outcomes if each.refusal is None)
    return BulkReply(
        changed=changed[True],
        unchanged=changed[False],
        refused_count=len(refused),
        refused=[
            RefusedOrder(id=id, detail=str(error)) for id, error in islice(refused, MAX_REFUSALS)
        ],
        next_cursor=cursor,
    )


def _routes(verb: Verb, words: _Words) -> tuple[Route, Route]:
    with_priority = verb is Verb.REPRIORITISE
    request: dict[str, Any] = dict(tasks.BULK_REQUEST)
    if with_priority:
        request |= tasks.PRIORITY_REQUEST
    command = "tasks priority" if with_priority else f"tasks {verb}"
    one = Route(
        name=f"{verb}_task",
        method="POST",
        path=f"/api/v1/tasks/{{task_id}}:{verb}",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_one(verb),
        client="reprioritise(task_id, 9)" if with_priority else f'act(task_id, "{verb}")',
        command=command,
        summary=words.one,
        details=f"{words.one_details} {_ONE_DETAILS}".strip(),
        body=PriorityRequest if with_priority else Nothing,
        response=TaskView,
        conflicts=True,
        etag=True,
        example=Example(request=tasks.PRIORITY_REQUEST if with_priority else None),
    )
    many = Route(
        name=f"{verb}_tasks",
        method="POST",
        path=f"/api/v1/tasks:{verb}",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=_many(verb),
        client=f'act_on("{verb}", [task_id]{", priority=9" if with_priority else ""})',
        command=command,
        summary=words.many,
        details=_MANY_DETAILS,
        body=BulkPriorityRequest if with_priority else BulkRequest,
        response=BulkReply,
        example=Example(request=request, response=tasks.BULK_REPLY),
    )
    return one, many


ROUTES: Final = tuple(route for verb, words in _WORDS.items() for route in _routes(verb, words))
