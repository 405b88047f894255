"""/api/v1/dead-letters: tasks that were given up, to list, requeue or discard."""

from typing import Final, Literal

import msgspec

from crawlfleet.api.examples import projects
from crawlfleet.api.examples import tasks as examples
from crawlfleet.api.http.parameters import PageSize, check_cursor, invalid, is_id, restricted
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Handler, Route, Scope
from crawlfleet.api.routes.task_orders import carry_out_many
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.model.admin_requests import DeadLetterRequest, DeadLetterSelection
from crawlfleet.model.task import ErrorClass, TaskStatus
from crawlfleet.ports.store import TaskFilter
from crawlfleet.views.dead_letters import DeadLetter, DeadLetterPage
from crawlfleet.views.tasks import BulkReply

# Not the enumeration: a query's types are described where they stand.
Kind = Literal["error", "network", "timeout", "crash", "lost", "invalid", "blocked"]


class DeadLetterQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    project_id: str | None = None
    """List only dead letters of this project."""
    cluster_id: str | None = None
    """List only dead letters of this cluster."""
    task_type: str | None = None
    """List only tasks of this type."""
    workflow_id: str | None = None
    """List only tasks of this workflow."""
    assigned_node: str | None = None
    """List only tasks that were last on this node."""
    status: Literal["failed", "timeout"] | msgspec.UnsetType = msgspec.UNSET
    """List only tasks that ended in this state."""
    error_class: Kind | msgspec.UnsetType = msgspec.UNSET
    """List only tasks whose last error is of this class."""
    reason: str | None = None
    """List only tasks with this text in their reason."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of dead letters in the page."""


async def find(call: Call) -> DeadLetterPage:
    query: DeadLetterQuery = call.query
    selection = DeadLetterSelection(
        project_id=query.project_id,
        cluster_id=query.cluster_id,
        task_type=query.task_type,
        workflow_id=query.workflow_id,
        assigned_node=query.assigned_node,
        status=None if query.status is msgspec.UNSET else TaskStatus(query.status),
        error_class=None if query.error_class is msgspec.UNSET else ErrorClass(query.error_class),
        reason=query.reason,
    )
    filter = restricted(_filter(selection), call.project_id)
    if filter is None:
        return DeadLetterPage(items=[], next_cursor=None)
    tasks, cursor = await call.service(TaskQueries).find_tasks(
        filter, after=check_cursor(query.cursor), limit=query.limit, with_results=False
    )
    return DeadLetterPage(items=[DeadLetter.of(task) for task in tasks], next_cursor=cursor)


def _many(verb: Verb) -> Handler:
    async def handle(call: Call) -> BulkReply:
        order = TaskOrder(verb=verb, by=call.caller.name, project_id=call.project_id)
        return await carry_out_many(call, order, _filter)

    return handle


def _filter(selection: DeadLetterSelection) -> TaskFilter:
    if selection.reason is not None and not is_id(selection.reason):
        raise invalid(
            "reason",
            "cannot be part of a reason",
            "send 1 to 100 characters that can be printed, or leave it out",
            selection.reason,
        )
    return TaskFilter(
        status=() if selection.status is None else (selection.status,),
        project_id=selection.project_id,
        cluster_id=selection.cluster_id,
        task_type=selection.task_type,
        workflow_id=selection.workflow_id,
        assigned_node=selection.assigned_node,
        error_class=selection.error_class,
        reason=selection.reason,
        dead=True,
    )


ROUTES: Final = (
    Route(
        name="list_dead_letters",
        method="GET",
        path="/api/v1/dead-letters",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='dead_letters(error_class="network")',
        command="dead-letters list",
        summary="List tasks that were given up, newest first",
        query=DeadLetterQuery,
        response=DeadLetterPage,
        example=Example(response=projects.DEAD_LETTERS),
    ),
    Route(
        name="requeue_dead_letters",
        method="POST",
        path="/api/v1/dead-letters:requeue",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=_many(Verb.REQUEUE),
        client='requeue_dead_letters(project_id="shop")',
        command="dead-letters requeue",
        summary="Send dead letters back to the queue",
        details="Their counters begin anew. Name up to 10,000 `ids` of tasks, or a `filter`, "
        'of which all fields may be left out: `{"filter": {}}` is the whole list. Answer, '
        "`limit` and `cursor` are as for [orders about many tasks](#post-apiv1taskscancel).",
        body=DeadLetterRequest,
        response=BulkReply,
        example=Example(request=projects.DEAD_LETTER_REQUEST, response=examples.BULK_REPLY),
    ),
    Route(
        name="discard_dead_letters",
        method="POST",
        path="/api/v1/dead-letters:discard",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=_many(Verb.DISCARD),
        client="discard_dead_letters([task_id])",
        command="dead-letters discard",
        summary="Take dead letters off the list",
        details="The tasks stay as they ended, and go when their time to be kept is over.",
        body=DeadLetterRequest,
        response=BulkReply,
    ),
)
