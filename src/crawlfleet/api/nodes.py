"""/api/v1/nodes"""

from http import HTTPStatus
from typing import Any, Final

from crawlfleet.api.presenting import present_node
from crawlfleet.api.routing import NODES, OPERATORS, READERS, Call, Reply, Route, check_id
from crawlfleet.model.messages import Departure, Heartbeat, LeaseRequest, Registration, ReportBatch
from crawlfleet.model.node import Node
from crawlfleet.model.views import NodePage, NodeView


async def register(call: Call) -> Reply:
    registered = await call.control.nodes.register(call.body, by=call.caller)
    return Reply(
        body=registered,
        status=HTTPStatus.CREATED,
        headers={"Location": f"/api/v1/nodes/{registered.node_id}"},
    )


async def heartbeat(call: Call) -> Any:
    return await call.control.nodes.heartbeat(_id(call), call.body)


async def lease(call: Call) -> Any:
    return await call.control.leases.lease(_id(call), call.body)


async def report(call: Call) -> Any:
    return await call.control.leases.report(_id(call), call.body)


async def find(call: Call) -> NodePage:
    nodes = [present_node(each) for each in call.control.queries.nodes()]
    return NodePage(items=nodes, next_cursor=None)


async def get(call: Call) -> NodeView:
    return _view(call, call.control.nodes.get(_id(call)))


async def drain(call: Call) -> NodeView:
    return _view(call, await call.control.nodes.drain(_id(call), by=call.caller.name))


async def maintain(call: Call) -> NodeView:
    return _view(call, await call.control.nodes.maintain(_id(call), by=call.caller.name))


async def resume(call: Call) -> NodeView:
    return _view(call, await call.control.nodes.resume(_id(call), by=call.caller.name))


async def unregister(call: Call) -> NodeView:
    return _view(
        call,
        await call.control.nodes.unregister(
            _id(call), session_id=call.body.session_id, by=call.caller.name
        ),
    )


def _id(call: Call) -> str:
    return check_id("node", call.path["node_id"])


def _view(call: Call, node: Node) -> NodeView:
    return present_node(call.control.queries.node(node))


_NODE: Final = "/api/v1/nodes/{node_id}"

ROUTES: Final = (
    Route(
        method="POST",
        path="/api/v1/nodes:register",
        roles=NODES,
        handler=register,
        summary="Register a node, or welcome it back, and open a session",
        body=Registration,
    ),
    Route(
        method="POST",
        path=f"{_NODE}:heartbeat",
        roles=NODES,
        handler=heartbeat,
        summary="Renew the session; the reply carries orders",
        body=Heartbeat,
    ),
    Route(
        method="POST",
        path=f"{_NODE}:lease",
        roles=NODES,
        handler=lease,
        summary="Wait for work and orders",
        body=LeaseRequest,
    ),
    Route(
        method="POST",
        path=f"{_NODE}:report",
        roles=NODES,
        handler=report,
        summary="Say what became of executions",
        body=ReportBatch,
    ),
    Route(
        method="POST",
        path=f"{_NODE}:unregister",
        roles=NODES | OPERATORS,
        handler=unregister,
        summary="Leave now; running work goes back to the queue",
        body=Departure,
    ),
    Route(
        method="GET",
        path="/api/v1/nodes",
        roles=READERS,
        handler=find,
        summary="List nodes with their newest figures",
    ),
    Route(
        method="GET",
        path=_NODE,
        roles=READERS | NODES,
        handler=get,
        summary="One node",
    ),
    Route(
        method="POST",
        path=f"{_NODE}:drain",
        roles=OPERATORS,
        handler=drain,
        summary="Finish what runs, take nothing new, then go offline",
    ),
    Route(
        method="POST",
        path=f"{_NODE}:maintenance",
        roles=OPERATORS,
        handler=maintain,
        summary="Take nothing new until resumed",
    ),
    Route(
        method="POST",
        path=f"{_NODE}:resume",
        roles=OPERATORS,
        handler=resume,
        summary="Take work again",
    ),
)
