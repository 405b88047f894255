"""/api/distribution: the API of an earlier system, as a thin layer over the same services.

Devices are nodes and tasks are tasks: changes here appear in `/api/v1`, and the other way round. A
device pulls the tasks that are assigned to it, and gets them again until it reports them as
running.
"""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from crawlfleet import __version__
from crawlfleet.api.distribution import devices, examples
from crawlfleet.api.distribution.devices import device_id_of, device_named
from crawlfleet.api.http.parameters import PageSize, check_cursor, check_id, parse_states
from crawlfleet.api.http.routing import (
    NODES,
    OPERATORS,
    READERS,
    Call,
    Example,
    Reply,
    Route,
    Scope,
)
from crawlfleet.api.routes.tasks import in_scope
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.assign_by_hand import AssignByHand
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, InvalidRequest, Refused
from crawlfleet.model.key import Role
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import ErrorClass, ExecutionStatus, Task, TaskError, TaskStatus
from crawlfleet.model.wire.node_protocol import (
    LeaseRequest,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
)
from crawlfleet.ports.store import TaskFilter
from crawlfleet.views.distribution import (
    AssignRequest,
    DistributedTask,
    NewTask,
    Overview,
    PulledTask,
    PulledTasks,
    TaskList,
    TaskStats,
    TaskStatusChange,
)
from crawlfleet.views.fields import instant, moment

REPORTS: Final = {
    "running": ReportKind.STARTED,
    "processing": ReportKind.STARTED,
    "completed": ReportKind.SUCCEEDED,
    "failed": ReportKind.FAILED,
}
FIRST_TOKEN: Final = 1
"""Token of the first attempt. While it is the newest, a device may leave the token out."""
OUTCOMES: Final = {"completed": TaskStatus.COMPLETED, "failed": TaskStatus.FAILED}


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: str = ""
    """List only tasks in these states, separated by commas."""
    device_id: str | None = None
    """List only tasks of this device."""
    limit: PageSize = 100
    """Maximum number of tasks in the page."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""


class PullQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    device_id: str
    """Id of the device that pulls."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Seconds to wait when there is no work."""


async def create(call: Call) -> Reply:
    wanted: NewTask = call.body
    settings = call.service(ThisMaster).settings.distribution
    retries = settings.max_retries if wanted.max_retry_count is None else wanted.max_retry_count
    request = TaskRequest(
        task_type=wanted.task_type,
        parameters=wanted.parameters,
        priority=wanted.priority,
        timeout=settings.task_timeout_s if wanted.task_timeout is None else wanted.task_timeout,
        max_retries=retries,
        project_id=wanted.project_id or DEFAULT_PROJECT,
        schedule_strategy=wanted.load_balance_strategy,
    )
    (made,) = await call.service(Tasks).submit_batch([in_scope(call, request)], by=call.caller.name)
    if made.task is None:
        raise InvalidRequest(made.problems) if made.problems else Conflict(made.conflict)
    return Reply(body=_present(call, made.task), status=HTTPStatus.CREATED)


async def find(call: Call) -> TaskList:
    query: TaskQuery = call.query
    node = None if query.device_id is None else device_named(call, query.device_id)
    found, cursor = await call.service(TaskQueries).find_tasks(
        TaskFilter(
            status=parse_states(query.status),
            assigned_node=node.id if node else None,
            project_id=call.project_id,
        ),
        after=check_cursor(query.cursor),
        limit=query.limit,
    )
    return TaskList(tasks=[_present(call, task) for task in found], next_cursor=cursor)


async def assign(call: Call) -> DistributedTask:
    node = device_named(call, call.body.device_id)
    task = await call.service(AssignByHand).assign(
        _task_id(call), node.id, by=call.caller.name, names_projects=call.project_id is None
    )
    return _present(call, task)


async def change_status(call: Call) -> DistributedTask:
    said: TaskStatusChange = call.body
    if said.status in REPORTS:
        return _present(call, await _report(call, said))
    if call.caller.role is Role.NODE:
        raise Refused(f"{said.status!r} is for operators to say; a device says what it did")
    task = await call.service(Tasks).get(_task_id(call))
    verb = {"cancelled": Verb.CANCEL, "paused": Verb.PAUSE}.get(said.status)
    if verb is None:
        verb = Verb.RESUME if task.status is TaskStatus.PAUSED else Verb.RETRY
    order = TaskOrder(verb=verb, by=call.caller.name)
    return _present(call, await call.service(TaskOrders).carry_out_one(order, task.id))


async def pull(call: Call) -> PulledTasks:
    node = device_named(call, call.query.device_id)
    held = tuple(
        lease.execution.id
        for lease in call.service(FleetState).session_executions(node.session_id or "")
        if lease.execution.status is ExecutionStatus.RUNNING
    )
    reply = await call.service(Leases).lease(
        node.id,
        LeaseRequest(session_id=node.session_id or "", held=held, wait_s=call.query.wait),
    )
    return PulledTasks(
        tasks=[
            PulledTask(
                task_id=each.task_id,
                task_type=each.task_type,
                parameters=each.parameters,
                token=each.token,
                attempt=each.attempt,
                task_timeout=each.timeout_s,
            )
            for each in reply.assignments
        ],
        stop_tasks=tuple(order.task_id for order in reply.stop),
        registered=not reply.session_lost,
    )


async def overview(call: Call) -> Overview:
    found = await call.service(TaskQueries).statistics()
    leadership = await call.service(ThisMaster).leadership()
    return Overview(
        version=__version__,
        leader=leadership.leader,
        devices=found.nodes,
        health=found.health,
        tasks=found.tasks,
        ready_tasks=found.ready,
        running_tasks=found.running,
        oldest_ready=found.oldest_ready_s,
        completed_per_second=found.throughput["minute"].completed_per_s,
    )


async def stats(call: Call) -> TaskStats:
    found = await call.service(TaskQueries).statistics(call.project_id)
    minute, hour = found.throughput["minute"], found.throughput["hour"]
    return TaskStats(
        total=sum(found.tasks.values()),
        by_status=found.tasks,
        completed_last_minute=minute.completed,
        completed_last_hour=hour.completed,
        failed_last_hour=hour.failed + hour.timeout,
        failures=found.failures,
    )


async def _report(call: Call, said: TaskStatusChange) -> Task:
    """Record a device's report about its task; a repeated report changes nothing."""
    caller = call.caller
    task = await call.service(Tasks).get(_task_id(call))
    if caller.role is Role.OPERATOR:
        raise Refused(f"only the device that has {task.id} can say that it is {said.status}")
    lease = call.service(FleetState).lease_of(task)
    owner = lease.execution.node_id if lease else task.assigned_node
    if caller.role is Role.NODE and caller.node_id != owner:
        raise Refused(f"{task.id} is not a task of this device (any more)")
    token = FIRST_TOKEN if said.token is None else said.token
    if lease is None or token != lease.execution.token:
        if OUTCOMES.get(said.status) is task.status and token == task.token:
            return task
        if said.token is None and task.token != FIRST_TOKEN:
            # It may be an earlier attempt that speaks, whose work was given to another.
            raise Conflict(
                f"{task.id} was given out {task.token} times, and it is not said which attempt"
                " this is about; send the `token` that came with the task"
            )
        raise Conflict(f"{task.id} is {task.status}; this attempt does not own it (any more)")
    failure = TaskError(error_class=ErrorClass.ERROR, message=said.error or "it did not say why")
    report = Report(
        execution_id=lease.execution.id,
        task_id=task.id,
        token=lease.execution.token,
        kind=REPORTS[said.status],
        at=call.service(ThisMaster).now(),
        data=said.result,
        error=failure if said.status == "failed" else None,
    )
    batch = ReportBatch(session_id=lease.execution.session_id, reports=(report,))
    (outcome,) = (await call.service(Leases).report(lease.execution.node_id, batch)).outcomes
    if outcome is not ReportOutcome.RECORDED:
        raise Conflict(f"this attempt does not own {task.id} any more: stop it")
    return await call.service(Tasks).get(task.id)


def _task_id(call: Call) -> str:
    return check_id("task", call.path["task_id"])


def _present(call: Call, task: Task) -> DistributedTask:
    node = call.service(FleetState).nodes.get(task.assigned_node or "")
    return DistributedTask(
        task_id=task.id,
        task_type=task.task_type,
        status=str(task.status),
        priority=task.priority,
        device_id=device_id_of(node) if node else task.assigned_node,
        token=task.token,
        retry_count=task.retry_count,
        max_retry_count=task.max_retries,
        task_timeout=task.timeout_s,
        created_at=moment(task.created_at),
        started_at=instant(task.started_at),
        completed_at=instant(task.completed_at),
        result=task.result,
        error=task.error.message if task.error else None,
    )


_TASKS: Final = "/api/distribution/tasks"
_TASK: Final = f"{_TASKS}/{{task_id}}"

ROUTES: Final = (
    *devices.ROUTES,
    Route(
        name="create_distributed_task",
        method="POST",
        path=_TASKS,
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create,
        summary="Create a task",
        details="`task_type` and `parameters` are those of `/api/v1/tasks`; `priority` (5), "
        "`task_timeout` (`distribution.task_timeout_s`), `max_retry_count` "
        "(`distribution.max_retries`), `project_id` and `load_balance_strategy` may be left "
        "out. 201.",
        body=NewTask,
        response=DistributedTask,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(request=examples.NEW_TASK, response=examples.TASK),
    ),
    Route(
        name="list_distributed_tasks",
        method="GET",
        path=_TASKS,
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        summary="List tasks, newest first",
        details="`status` (several parted by commas) and `device_id` restrict; `limit` (100) "
        "and `cursor` page.",
        query=TaskQuery,
        response=TaskList,
    ),
    Route(
        name="assign_task",
        method="PUT",
        path=f"{_TASK}/assign",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=assign,
        summary="Give a waiting task to a device",
        details="409 with the reasons when the device must not have it. Answers with the task.",
        body=AssignRequest,
        response=DistributedTask,
        conflicts=True,
        example=Example(request={"device_id": "worker-001"}),
    ),
    Route(
        name="change_task_status",
        method="PUT",
        path=f"{_TASK}/status",
        roles=OPERATORS | NODES,
        scope=Scope.PATH,
        handler=change_status,
        summary="Say what became of a task, or order it",
        details="A device says `running`, `completed` (with a `result`) or `failed` (with an "
        "`error`), and the `token` of the attempt as it was pulled. An operator says "
        "`cancelled`, `paused`, or `pending` for another try. Saying it again changes nothing. "
        "409 when the attempt does not own the task any more: stop it and forget it. Also "
        "without a `token`, when the task has been given out before.",
        body=TaskStatusChange,
        response=DistributedTask,
        conflicts=True,
        example=Example(request=examples.COMPLETED),
    ),
    Route(
        name="pull_tasks",
        method="GET",
        path=f"{_TASKS}/pull",
        roles=NODES,
        scope=Scope.FLEET,
        handler=pull,
        summary="What a device has to do",
        details="`device_id` is who asks; with `wait` the answer comes when there is something "
        "to do, or after so many seconds (60 at most). A task is given again with each call "
        "until the device says that it is `running`.",
        query=PullQuery,
        response=PulledTasks,
        example=Example(response=examples.PULLED),
    ),
    Route(
        name="get_task_stats",
        method="GET",
        path=f"{_TASKS}/stats",
        roles=READERS,
        scope=Scope.OWN,
        handler=stats,
        summary="How tasks did",
        response=TaskStats,
        example=Example(response=examples.TASK_STATS),
    ),
    Route(
        name="get_system_overview",
        method="GET",
        path="/api/distribution/system/overview",
        roles=READERS,
        scope=Scope.FLEET,
        handler=overview,
        summary="The system in a few numbers",
        response=Overview,
        example=Example(response=examples.OVERVIEW),
    ),
)
