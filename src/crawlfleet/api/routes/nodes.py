"""/api/v1/nodes"""

import asyncio
from datetime import datetime
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Final

import msgspec
from starlette.requests import ClientDisconnect

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageSize, check_id, check_id_cursor, seconds_of
from crawlfleet.api.http.routing import (
    ADMINS,
    NODES,
    NOT_KEPT,
    OPERATORS,
    READERS,
    Call,
    Example,
    Reply,
    Route,
    Scope,
)
from crawlfleet.control.access.node_tokens import NodeTokens
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.logs.executions import Logs
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.lost_connections import LostConnections
from crawlfleet.control.nodes.orders import NodeOrders
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.tasks.queries import NodeState, TaskQueries
from crawlfleet.features.crawls.service import Crawls
from crawlfleet.model.node import Node, NodeStatus
from crawlfleet.model.node_sample import Resolution
from crawlfleet.model.requests import NodeChangeRequest
from crawlfleet.model.wire.node_protocol import (
    Departure,
    DrainOrder,
    Heartbeat,
    HeartbeatReply,
    LeaseReply,
    LeaseRequest,
    NodeToken,
    NoteBatch,
    NoteReply,
    Registered,
    Registration,
    ReportBatch,
    ReportReply,
)
from crawlfleet.views.nodes import NodeHistoryView, NodePage, NodeSampleView, NodeView


class NodeQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    status: NodeStatus | msgspec.UnsetType = msgspec.UNSET
    """List only nodes in this state."""
    cluster_id: str | None = None
    """List only nodes of this cluster."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize | msgspec.UnsetType = msgspec.UNSET
    """Maximum number of nodes in the page; all nodes when not set."""


class NodeHistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    resolution: Resolution = Resolution.MINUTE
    """Resolution: each heartbeat (`raw`), or a mean for each minute or hour."""
    since: datetime | None = None
    """List only samples from this instant on."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 1500
    """Maximum number of samples; the newest are returned."""


async def find(call: Call) -> NodePage:
    query: NodeQuery = call.query
    after = check_id_cursor(query.cursor)
    # They are in the order of their ids.
    found = (
        each
        for each in call.service(TaskQueries).nodes()
        if query.status in (msgspec.UNSET, each.node.status)
        and query.cluster_id in (None, each.node.cluster_id)
        and (after is None or each.node.id > after)
    )
    page = list(islice(found, None if query.limit is msgspec.UNSET else query.limit))
    is_last = next(found, None) is None
    return NodePage(
        items=[_view(each) for each in page],
        next_cursor=None if is_last else page[-1].node.id,
    )


async def register(call: Call) -> Reply:
    registered = await call.service(Nodes).register(call.body, by=call.caller)
    return Reply(
        body=registered,
        status=HTTPStatus.CREATED,
        headers={"Location": f"/api/v1/nodes/{registered.node_id}", **NOT_KEPT},
    )


async def heartbeat(call: Call) -> HeartbeatReply:
    reply = await call.service(Nodes).heartbeat(_id(call), call.body)
    if call.service(NodeTokens).is_due(reply.node_id):
        return msgspec.structs.replace(reply, renew_token=True)
    return reply


async def lease(call: Call) -> LeaseReply:
    """Waits for work, and notices when the node hangs up meanwhile: it may have died."""
    node_id, request, lost_connections = _id(call), call.body, call.service(LostConnections)
    lost_connections.begin_poll(node_id, call.connection)
    leasing = asyncio.create_task(call.service(Leases).lease(node_id, request))
    gone = asyncio.create_task(call.hung_up())
    try:
        await asyncio.wait([leasing, gone], return_when=asyncio.FIRST_COMPLETED)
        lost_connections.note_poll_end(node_id, request, call.connection)
        if not leasing.done():
            raise ClientDisconnect
        return leasing.result()
    finally:
        lost_connections.end_poll(node_id, call.connection)
        leasing.cancel()
        gone.cancel()


async def report(call: Call) -> ReportReply:
    return await call.service(Leases).report(_id(call), call.body)


async def note(call: Call) -> NoteReply:
    reply = await call.service(Logs).take(_id(call), call.body)
    await call.service(Crawls).hear(call.body, reply)
    return reply


async def get(call: Call) -> Reply:
    return _reply(call, await call.service(Nodes).find(_id(call)))


async def change(call: Call) -> Reply:
    node = await call.service(Nodes).change(
        _id(call), call.body, by=call.caller.name, version=wanted_version(call)
    )
    return _reply(call, node)


async def history(call: Call) -> NodeHistoryView:
    node = await call.service(Nodes).find(_id(call))
    query: NodeHistoryQuery = call.query
    samples = await call.service(NodeHistory).read(
        node.id, query.resolution, since=seconds_of(query.since), limit=query.limit
    )
    return NodeHistoryView(
        node_id=node.id,
        resolution=str(query.resolution),
        items=[NodeSampleView.of(sample) for sample in samples],
    )


async def drain(call: Call) -> Reply:
    node = await call.service(NodeOrders).drain(
        _id(call),
        by=call.caller.name,
        deadline_s=call.body.deadline_s,
        if_version=wanted_version(call),
    )
    return _reply(call, node)


async def maintain(call: Call) -> Reply:
    version = wanted_version(call)
    by = call.caller.name
    return _reply(
        call, await call.service(NodeOrders).maintain(_id(call), by=by, if_version=version)
    )


async def resume(call: Call) -> Reply:
    version = wanted_version(call)
    by = call.caller.name
    return _reply(call, await call.service(NodeOrders).resume(_id(call), by=by, if_version=version))


async def unregister(call: Call) -> Reply:
    node = await call.service(NodeOrders).unregister(
        _id(call),
        session_id=call.body.session_id,
        by=call.caller.name,
        if_version=wanted_version(call),
    )
    return _reply(call, node)


async def remove(call: Call) -> Reply:
    version = wanted_version(call)
    by = call.caller.name
    return _reply(call, await call.service(NodeOrders).remove(_id(call), by=by, if_version=version))


async def rotate_token(call: Call) -> Reply:
    version = wanted_version(call)
    by = call.caller.name
    return _reply(call, await call.service(NodeTokens).rotate(_id(call), by=by, if_version=version))


async def renew_token(call: Call) -> Reply:
    return Reply(body=await call.service(NodeTokens).renew(_id(call)), headers=NOT_KEPT)


async def revoke(call: Call) -> Reply:
    version = wanted_version(call)
    by = call.caller.name
    return _reply(call, await call.service(NodeTokens).revoke(_id(call), by=by, if_version=version))


def _id(call: Call) -> str:
    return check_id("node", call.path["node_id"])


def _view(state: NodeState) -> NodeView:
    return NodeView.of(state.node, state.session, state.active_tasks)


def _reply(call: Call, node: Node) -> Reply:
    return tagged(call, _view(call.service(TaskQueries).node(node)), node.version, volatile=True)


_NODE: Final = "/api/v1/nodes/{node_id}"

ROUTES: Final = (
    Route(
        name="register_node",
        method="POST",
        path="/api/v1/nodes:register",
        roles=NODES,
        scope=Scope.FLEET,
        handler=register,
        summary="Register a node, or welcome it back, and open a session",
        details="A new node shows a join token and is answered with its `node_token`, once; a "
        "node that returns shows that token and sends its `node_id`. Its earlier session ends.",
        joins=True,
        body=Registration,
        response=Registered,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(request=tasks.REGISTRATION, response=tasks.REGISTERED),
    ),
    Route(
        name="heartbeat",
        is_audited=False,
        method="POST",
        path=f"{_NODE}:heartbeat",
        roles=NODES,
        scope=Scope.FLEET,
        handler=heartbeat,
        summary="Renew the session; the reply carries orders",
        details="Shares (`cpu_usage`, `memory_usage`, `gpu_usage`, `disk_usage`) are from 0 to "
        "1, `network_io` and `disk_io` bytes per second, `disk_free_mb` megabytes. "
        "`configuration_version` and `session_timeout_s` are those of the `terms` of its "
        "registration or of the last reply that had some; the reply has `terms` (`version`, "
        "`heartbeat_interval_s`, `session_timeout_s`, `log_level`, `max_slots`) when they "
        "differ from its cluster's. `environments` are the digests of the bundles whose "
        "environments the node has, 64 at most: all of them each time, and left out while "
        "nothing has changed.\n\n"
        "`lost_tasks` are those of `active_tasks` that the node does not own (any more); `stop` "
        "lists executions to be stopped; `session_lost` means: stop everything and register "
        "again; `renew_token`: fetch a new token.",
        body=Heartbeat,
        response=HeartbeatReply,
        example=Example(request=tasks.HEARTBEAT, response=tasks.HEARTBEAT_REPLY),
    ),
    Route(
        name="lease",
        is_audited=False,
        method="POST",
        path=f"{_NODE}:lease",
        roles=NODES,
        scope=Scope.FLEET,
        handler=lease,
        summary="Wait for work and orders",
        details="Answers as soon as something is assigned that is not in `held`, or after "
        "`wait_s` seconds (at most 60). `backlog` is how many executions beyond its slots may "
        "lie ready at the node. `keeps_connection` says that it has died when none of its "
        "connections is left.\n\n"
        "`stop` and `session_lost` are those of a heartbeat; `draining` says that nothing more "
        "will come. `warm` names bundles whose environments the node should make ready when it "
        "has time.",
        body=LeaseRequest,
        response=LeaseReply,
        example=Example(request=tasks.LEASE_REQUEST, response=tasks.LEASE_REPLY),
    ),
    Route(
        name="report",
        is_audited=False,
        method="POST",
        path=f"{_NODE}:report",
        roles=NODES,
        scope=Scope.FLEET,
        handler=report,
        summary="Say what became of executions",
        details="`kind` is `started`, `succeeded` (with `data`, JSON of at most 1 MB), "
        "`failed` (with `error`), `stopped` (as ordered) or `released` (given back). Send it "
        "again until it is answered: it is recorded once.\n\n"
        "`stale` means that the attempt does not own the task (any more): stop it and forget "
        "it. With `knows_later`, the outcome may be `later`: what was found is still being "
        "measured, so say it again in a second or so. Without it, that is a 503, once the rest "
        "is recorded.",
        body=ReportBatch,
        response=ReportReply,
        example=Example(request=tasks.REPORT_BATCH, response=tasks.REPORT_REPLY),
    ),
    Route(
        name="note",
        is_audited=False,
        method="POST",
        path=f"{_NODE}:note",
        roles=NODES,
        scope=Scope.FLEET,
        handler=note,
        summary="Pass on what executions say while they run",
        details="Only sent when there is something to say, a few times a second at most. Lines "
        "are numbered from 1 in each execution, so that it may be sent again; `level` is `info` "
        "when it is not set. `left_out` names the `first` and the `last` line that the node "
        "does not keep; the master drops those that it has. A crawl's `figures` are its newest, "
        "and `answers` are the replies of executions to orders.\n\n"
        "What is not `stale` is durable. Stale are executions that are not the node's, or that "
        "ended more than a minute ago: say nothing more about them.",
        body=NoteBatch,
        response=NoteReply,
        example=Example(request=tasks.NOTE_BATCH, response=tasks.NOTE_REPLY),
    ),
    Route(
        name="unregister_node",
        method="POST",
        path=f"{_NODE}:unregister",
        roles=NODES | OPERATORS,
        scope=Scope.FLEET,
        handler=unregister,
        client='order(node_id, "unregister")',
        command="nodes unregister",
        summary="Leave now; running work goes back to the queue",
        details="With a `session_id`, only that session is ended; the node may come back with "
        "its token.",
        body=Departure,
        response=NodeView,
        etag=True,
        conflicts=True,
        example=Example(request=tasks.DEPARTURE),
    ),
    Route(
        name="list_nodes",
        method="GET",
        path="/api/v1/nodes",
        roles=READERS,
        scope=Scope.FLEET,
        handler=find,
        client='nodes(status="online")',
        command="nodes list",
        summary="List nodes with their newest figures",
        details="In the order of their registration; all of them, unless a `limit` is set.",
        query=NodeQuery,
        response=NodePage,
    ),
    Route(
        name="get_node",
        method="GET",
        path=_NODE,
        roles=READERS | NODES,
        scope=Scope.FLEET,
        handler=get,
        client="node(node_id)",
        command="nodes show",
        summary="One node",
        details="`resources` is what it has, `usage` what it last measured. `conditions` are "
        "what is wrong with it, each with its `kind` (`cpu`, `memory`, `disk`, `errors`, "
        "`latency`, `clock`, `probe`), `health`, `reason` and `since`; the worst makes its "
        "`health` ([health](../guides/health.md)). The header `ETag` is for `If-Match` when the "
        "node is changed.",
        response=NodeView,
        etag=True,
        example=Example(response=tasks.NODE),
    ),
    Route(
        name="change_node",
        method="PATCH",
        path=_NODE,
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=change,
        client='change_node(node_id, labels={"rack": "7"}, version=2)',
        command="nodes label",
        summary="Label and describe a node",
        details="What is left out stays as it is; a label that is `null` is removed. What an "
        "operator sets here wins over what the node announces, and outlasts its restarts: a "
        "label that was removed stays away until it is set again. Placement knows at once. With "
        "the header `If-Match` nothing is changed, and the answer is 412, unless the node still "
        "has that `ETag`.",
        body=NodeChangeRequest,
        response=NodeView,
        etag=True,
        conflicts=True,
        example=Example(request=tasks.NODE_CHANGE),
    ),
    Route(
        name="get_node_history",
        method="GET",
        path=f"{_NODE}/history",
        roles=READERS,
        scope=Scope.FLEET,
        handler=history,
        client="node_history(node_id)",
        command="nodes history",
        summary="A node over time",
        details="`resolution` is `raw` (each heartbeat), `minute` (the default) or `hour`; "
        "`since` an instant in ISO 8601; `limit` how many of the last to show (1 to 5000, 1500 "
        "by default). What is older than an hour is kept as means of a minute, what is older "
        "than a day as means of an hour, and those for `retention.history_days` (31). Shares "
        "are between 0 and 1, rates in bytes per second; `ended` and `errors` are sums, and "
        "`latency_s` is how long the executions took that ended, `wait_s` how long they had "
        "waited at the node before they began.",
        query=NodeHistoryQuery,
        response=NodeHistoryView,
        example=Example(response=tasks.NODE_HISTORY),
    ),
    Route(
        name="drain_node",
        method="POST",
        path=f"{_NODE}:drain",
        roles=OPERATORS | NODES,
        scope=Scope.FLEET,
        handler=drain,
        client="drain(node_id, deadline_s=5)",
        command="nodes drain",
        summary="Finish what runs, take nothing new, then go offline",
        details="What still runs after `deadline_s` seconds is stopped and goes back to the "
        "queue, which costs its tasks no retry; without it the node stays until all is done. "
        "Draining anew sets another deadline. A node may drain itself. Answers with the node.",
        body=DrainOrder,
        response=NodeView,
        etag=True,
        conflicts=True,
    ),
    Route(
        name="maintain_node",
        method="POST",
        path=f"{_NODE}:maintenance",
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=maintain,
        client='order(node_id, "maintenance")',
        command="nodes maintenance",
        summary="Take nothing new until resumed",
        details="It survives a restart of the node.",
        response=NodeView,
        etag=True,
        conflicts=True,
    ),
    Route(
        name="resume_node",
        method="POST",
        path=f"{_NODE}:resume",
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=resume,
        client='order(node_id, "resume")',
        command="nodes resume",
        summary="Take work again",
        response=NodeView,
        etag=True,
        conflicts=True,
    ),
    Route(
        name="remove_node",
        method="POST",
        path=f"{_NODE}:remove",
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=remove,
        client='order(node_id, "remove")',
        command="nodes remove",
        summary="Forget a node that is gone",
        details="It is in no list any more, and its token is worth nothing: the machine can "
        "come back as a new node. A node that is connected has to be drained or unregistered "
        "first (409). Nodes that stay away are removed by themselves after "
        "`retention.nodes_days` (30).",
        response=NodeView,
        etag=True,
        conflicts=True,
    ),
    Route(
        name="rotate_node_token",
        method="POST",
        path=f"{_NODE}:rotate-token",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=rotate_token,
        client='order(node_id, "rotate-token")',
        command="nodes rotate-token",
        summary="Have a node change its token, without interruption",
        details="The node is told with its next heartbeat, and fetches itself a new token. The "
        "old one stays good until the new one is used, ten minutes at most. Answers with the "
        "node.",
        response=NodeView,
        etag=True,
        conflicts=True,
    ),
    Route(
        name="renew_node_token",
        method="POST",
        path=f"{_NODE}:renew-token",
        roles=NODES,
        scope=Scope.FLEET,
        handler=renew_token,
        summary="Fetch a new token",
        details="Asked for when a heartbeat's reply says `renew_token`. Keep the new token "
        "durably before it is used: from then on the old one is worth nothing. When no answer "
        "came, ask again with the old one.",
        response=NodeToken,
        conflicts=True,
        example=Example(response=tasks.NODE_TOKEN),
    ),
    Route(
        name="revoke_node",
        method="POST",
        path=f"{_NODE}:revoke",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=revoke,
        client='order(node_id, "revoke")',
        command="nodes revoke",
        summary="End a node and its token at once",
        details="Its session ends and its work goes back to the queue. It can come back only "
        "as a new node, with a join token: revoke that, too, if you do not trust the machine. "
        "Answers with the node.",
        response=NodeView,
        etag=True,
    ),
)
