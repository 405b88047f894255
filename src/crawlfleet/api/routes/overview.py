"""Routes for the dashboard's overview: numbers over time, problems, and task types."""

import inspect
import sys
from typing import Annotated, Final

import msgspec

from crawlfleet.api.docs.field_docs import whole_schema
from crawlfleet.api.examples import dashboard as examples
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.overview.attention import Attention
from crawlfleet.control.overview.series import Timeline
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.model.attention import AttentionList
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.statistics import Series, TaskTypePage, TaskTypeView

MAX_MINUTES: Final = 60


class TimelineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    minutes: Annotated[float, msgspec.Meta(gt=0, le=MAX_MINUTES)] = MAX_MINUTES
    """Length of the period in minutes, up to now."""


async def series(call: Call) -> Series:
    return call.service(Timeline).points(call.query.minutes * 60.0, project_id=call.project_id)


async def attention(call: Call) -> AttentionList:
    return AttentionList(items=await call.service(Attention).find(call.project_id))


async def task_types(call: Call) -> TaskTypePage:
    hidden = call.service(Clusters).hidden_from(call.project_id)
    online = [
        node
        for node in call.service(FleetState).nodes.values()
        if node.status is NodeStatus.ONLINE and node.cluster_id not in hidden
    ]
    known = call.service(ThisMaster).task_types
    named = {*known, *(name for node in online for name in node.task_types)}
    items = [
        TaskTypeView(
            name=name,
            summary=_summary(known[name]) if name in known else "",
            parameters=whole_schema(known[name]) if name in known else None,
            nodes=sum(not node.task_types or name in node.task_types for node in online),
        )
        for name in sorted(named)
    ]
    return TaskTypePage(items=items, next_cursor=None)


def _summary(parameters: type) -> str:
    """Return the first line of the documentation of a task type's parameters."""
    own = parameters.__dict__.get("__doc__") or sys.modules[parameters.__module__].__doc__ or ""
    first = inspect.cleandoc(own).partition("\n")[0]
    return first.partition("`: ")[2] or first


ROUTES: Final = (
    Route(
        name="get_series",
        method="GET",
        path="/api/v1/statistics/series",
        roles=READERS,
        scope=Scope.OWN,
        handler=series,
        client="series(5)",
        no_command="for charts; `statistics` says how the fleet does",
        summary="How the fleet did over time",
        details="In steps of 5 seconds over the last `minutes` (60 by default and at most), as "
        "this master saw it; it begins anew when the master starts, and what is counted of "
        "several masters is what each did itself. `pages` is what crawls said they have read.",
        query=TimelineQuery,
        response=Series,
        example=Example(response=examples.SERIES),
    ),
    Route(
        name="list_attention",
        method="GET",
        path="/api/v1/attention",
        roles=READERS,
        scope=Scope.OWN,
        handler=attention,
        client="attention()",
        command="attention",
        summary="What ought to be looked at, the most pressing first",
        details="`high` means that work does not get done, `medium` that it may soon not, "
        "`low` is good to know. `kind` is a stable word: `no_node_online`, `node_unresponsive`, "
        "`node_unreachable`, `node_unhealthy`, `node_degraded`, `node_draining`, "
        "`node_maintenance`, `nothing_can_run` (with the reason that `explain` gives), "
        "`overdue`, `host_blocks`, `failures`, `dead_letters`, `disk_full`, `store_unusable`, "
        "`clock_set`. `values` are what the message names (such as `name`, `task_type`, "
        "`waited_s`, `host`), and `because` says why in the same way: the causes of `explain`, "
        "each with `n` nodes, or what is wrong with a node (`cpu`, `memory`, `disk`, `errors`, "
        "`latency`, `clock` with `value` and `limit`, or `probe` with `words`). More than five "
        "of a kind are one line, whose `subject` has no `id`. A key of one project is told of "
        "that project's failures and dead letters.",
        response=AttentionList,
        example=Example(response=examples.ATTENTION),
    ),
    Route(
        name="list_task_types",
        method="GET",
        path="/api/v1/task-types",
        roles=READERS,
        scope=Scope.OWN,
        handler=task_types,
        client="task_types()",
        command="task-types",
        summary="What tasks there can be, and their parameters",
        details="`parameters` is a JSON schema, whole in itself; `null` for executors that "
        "this master does not bring. `nodes` is how many that are online have an executor for "
        "it; a key of one project is told of those in clusters that it may use.",
        response=TaskTypePage,
        example=Example(response=examples.TASK_TYPES),
    ),
)
