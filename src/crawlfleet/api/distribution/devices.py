"""/api/distribution/devices: nodes under the names of that API."""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.distribution import examples
from crawlfleet.api.http.parameters import MAX_ID_CHARACTERS, check_id, invalid
from crawlfleet.api.http.routing import (
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
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.orders import NodeOrders
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.tasks.queries import NodeState, TaskQueries
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.errors import NotFound, Refused
from crawlfleet.model.key import Role
from crawlfleet.model.node import Node
from crawlfleet.model.node_sample import Resolution
from crawlfleet.model.resources import Usage
from crawlfleet.model.wire.node_protocol import Heartbeat, Registration
from crawlfleet.views.distribution import (
    DEVICE_ID,
    DEVICE_NAME,
    DeviceHeartbeat,
    DeviceHeartbeatReply,
    DeviceList,
    DeviceRegistration,
    DeviceStats,
    DeviceStatusChange,
    DeviceView,
    RegisteredDevice,
)
from crawlfleet.views.fields import instant, moment

HOUR_S: Final = 3600.0


async def register(call: Call) -> Reply:
    """Make a node of the device, or welcome it back under the id that it gave itself."""
    wanted: DeviceRegistration = call.body
    known = call.service(Nodes).known_as(wanted.device_id)
    caller = call.caller
    if known is not None and caller.role is Role.ADMIN:
        caller = Principal(role=Role.NODE, name=caller.name, node_id=known.id)
    elif known is not None and caller.node_id != known.id:
        raise Refused(
            f"the device {wanted.device_id!r} is registered: show its own key, or remove it first"
        )
    labels = {DEVICE_ID: wanted.device_id}
    if wanted.device_name:
        labels[DEVICE_NAME] = wanted.device_name
    registered = await call.service(Nodes).register(
        Registration(
            name=wanted.device_name or wanted.device_id,
            node_id=known.id if known else caller.node_id,
            ip_address=wanted.host,
            port=wanted.port,
            node_type=wanted.device_type,
            region=wanted.region,
            labels=labels,
            capabilities=wanted.capabilities,
            task_types=wanted.task_types,
            resources={"slots": float(wanted.concurrent_tasks)},
        ),
        by=caller,
    )
    return Reply(
        body=RegisteredDevice(
            device_id=wanted.device_id,
            node_id=registered.node_id,
            status=registered.initial_status,
            heartbeat_interval=registered.heartbeat_interval_s,
            device_timeout=registered.session_timeout_s,
            api_key=registered.node_token,
        ),
        status=HTTPStatus.CREATED,
        headers={"Location": f"/api/v1/nodes/{registered.node_id}", **NOT_KEPT},
    )


async def find(call: Call) -> DeviceList:
    devices = [_present(state) for state in call.service(TaskQueries).nodes()]
    return DeviceList(devices=devices, total=len(devices))


async def change_status(call: Call) -> DeviceView:
    node = device_of(call)
    orders, by = call.service(NodeOrders), call.caller.name
    carry_out = {
        "online": orders.resume,
        "maintenance": orders.maintain,
        "draining": orders.drain,
        "offline": orders.unregister,
    }
    changed = await carry_out[call.body.status](node.id, by=by)
    return _present(call.service(TaskQueries).node(changed))


async def heartbeat(call: Call) -> DeviceHeartbeatReply:
    node, said = device_of(call), call.body
    reply = await call.service(Nodes).heartbeat(
        node.id,
        Heartbeat(
            resources=Usage(
                cpu_usage=said.cpu_usage,
                memory_usage=said.memory_usage,
                disk_usage=said.disk_usage,
            ),
            load=max(said.cpu_usage, said.memory_usage),
            active_tasks=said.current_tasks,
        ),
    )
    ordered = (order.task_id for order in reply.stop)
    return DeviceHeartbeatReply(
        device_id=device_id_of(node),
        status=reply.status,
        timestamp=moment(reply.timestamp),
        registered=not reply.session_lost,
        stop_tasks=tuple(dict.fromkeys((*reply.lost_tasks, *ordered))),
    )


async def stats(call: Call) -> DeviceStats:
    node = device_of(call)
    since = call.service(ThisMaster).now() - HOUR_S
    samples = await call.service(NodeHistory).read(node.id, Resolution.HOUR, since=since, limit=2)
    count = sum(each.count for each in samples)
    ended, errors = sum(each.ended for each in samples), sum(each.errors for each in samples)
    seconds = sum((each.latency_s or 0.0) * each.ended for each in samples)
    return DeviceStats(
        device_id=device_id_of(node),
        status=str(node.status),
        health=str(node.health),
        current_tasks=len(call.service(TaskQueries).node(node).active_tasks),
        ended=ended,
        errors=errors,
        error_rate=errors / ended if ended else None,
        mean_duration=seconds / ended if ended else None,
        cpu_usage=sum(s.cpu_usage * s.count for s in samples) / count if count else None,
        memory_usage=sum(s.memory_usage * s.count for s in samples) / count if count else None,
    )


def device_of(call: Call) -> Node:
    """The device that the path names; `NotFound` if there is none."""
    named = check_id("device", call.path["device_id"])
    node = call.service(Nodes).known_as(named)
    if node is None:
        raise NotFound("device", named)
    return node


def device_named(call: Call, device_id: str) -> Node:
    """The device that a body or a query names; another's only for people.

    For a key of one project there are only devices of the clusters that it may use.
    """
    node = call.service(Nodes).known_as(device_id)
    if node is not None and node.cluster_id in call.service(Clusters).hidden_from(call.project_id):
        node = None
    if call.caller.role is Role.NODE and (node is None or call.caller.node_id != node.id):
        raise Refused("only a device itself may do this, with its own key")
    if node is None:
        remedy = (
            "GET /api/distribution/devices lists them"
            if call.project_id is None
            else "name one of the `placement` of GET /api/v1/tasks/{task_id}:explain"
        )
        raise invalid("device_id", "is not a device", remedy, device_id[:MAX_ID_CHARACTERS])
    return node


def device_id_of(node: Node) -> str:
    """Return the id that the device gave itself, or else the id of its node."""
    return node.labels.get(DEVICE_ID, node.id)


def _present(state: NodeState) -> DeviceView:
    node = state.node
    usage = state.session.usage if state.session else None
    return DeviceView(
        device_id=device_id_of(node),
        node_id=node.id,
        device_name=node.labels.get(DEVICE_NAME, node.name),
        device_type=node.node_type,
        status=str(node.status),
        health=str(node.health),
        health_reason=node.health_reason,
        host=node.ip_address,
        port=node.port,
        concurrent_tasks=int(node.resources.slots),
        current_tasks=len(state.active_tasks),
        cpu_usage=usage.cpu_usage if usage else None,
        memory_usage=usage.memory_usage if usage else None,
        disk_usage=usage.disk_usage if usage else None,
        last_heartbeat=instant(state.session.last_heartbeat) if state.session else None,
        registered_at=moment(node.created_at),
    )


_DEVICES: Final = "/api/distribution/devices"
_DEVICE: Final = f"{_DEVICES}/{{device_id}}"

ROUTES: Final = (
    Route(
        name="register_device",
        method="POST",
        path=f"{_DEVICES}/register",
        roles=NODES,
        scope=Scope.FLEET,
        handler=register,
        summary="Register a device, or welcome it back",
        details="The device is a node. It speaks with the `api_key` of the answer from now on, "
        "or with an admin's key. `device_id` is its own choice, and makes it the same device "
        "after a restart: then it shows its own key, or an admin's. `device_name`, "
        "`device_type`, `host`, `port`, `region`, `capabilities` and `task_types` (anything "
        "when empty) describe it; `concurrent_tasks` is how many it takes at once (3).",
        joins=True,
        body=DeviceRegistration,
        response=RegisteredDevice,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(request=examples.DEVICE_REGISTRATION, response=examples.REGISTERED_DEVICE),
    ),
    Route(
        name="list_devices",
        method="GET",
        path=_DEVICES,
        roles=READERS,
        scope=Scope.FLEET,
        handler=find,
        summary="List devices",
        response=DeviceList,
        example=Example(response=examples.DEVICES),
    ),
    Route(
        name="change_device_status",
        method="PUT",
        path=f"{_DEVICE}/status",
        roles=OPERATORS | NODES,
        scope=Scope.FLEET,
        handler=change_status,
        summary="Tell a device to work, rest or leave",
        details="`status` is `online` (take work again), `maintenance` (take nothing new), "
        "`draining` (leave when it is empty) or `offline` (leave now). Answers with the device.",
        body=DeviceStatusChange,
        response=DeviceView,
        conflicts=True,
        example=Example(request={"status": "maintenance"}),
    ),
    Route(
        name="device_heartbeat",
        is_audited=False,
        method="POST",
        path=f"{_DEVICE}/heartbeat",
        roles=NODES,
        scope=Scope.FLEET,
        handler=heartbeat,
        summary="Say that a device is alive",
        details="Shares (`cpu_usage`, `memory_usage`, `disk_usage`) are from 0 to 1; "
        "`current_tasks` are the ids of the tasks that it works on. Those in `stop_tasks` it "
        "must not go on with. When `registered` is false it was silent for too long: it has to "
        "stop everything and register.",
        body=DeviceHeartbeat,
        response=DeviceHeartbeatReply,
        example=Example(request=examples.DEVICE_HEARTBEAT, response=examples.DEVICE_REPLY),
    ),
    Route(
        name="get_device_stats",
        method="GET",
        path=f"{_DEVICE}/stats",
        roles=READERS,
        scope=Scope.FLEET,
        handler=stats,
        summary="How a device did in the last hour",
        response=DeviceStats,
        example=Example(response=examples.DEVICE_STATS),
    ),
)
