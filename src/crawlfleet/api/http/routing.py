"""The route table, and the handling of each request: key, role, body, handler, answer.

A route contains its complete description, so that checks, documentation and clients need no second
one. Paths may end in a verb (`/nodes/{id}:drain`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from crawlfleet.api.http.authentication import CLIENT, CONNECTION, Authenticator, ClientAddress
from crawlfleet.api.http.bodies import JSON, packed, read_body
from crawlfleet.api.http.browser import keep_inert
from crawlfleet.api.http.decoding import decode_body, decode_query
from crawlfleet.api.http.measurements import RequestMeasurements
from crawlfleet.api.http.parameters import MAX_ID_CHARACTERS, check_id
from crawlfleet.api.http.problems import (
    headers_of,
    is_known,
    place,
    problem,
    problem_of,
    respond,
)
from crawlfleet.control.access.clusters import Clusters
from crawlfleet.control.access.keys import Principal
from crawlfleet.control.logs.executions import Logs
from crawlfleet.control.nodes.lost_connections import LostConnections, NodeConnection
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.services import Service, Services
from crawlfleet.control.state.audit_trail import AuditTrail, leaving
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.errors import CrawlfleetError, NotFound, Refused
from crawlfleet.features.alerts.service import Alerts
from crawlfleet.features.schedules.service import Schedules
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.audit import AuditEntry
from crawlfleet.model.key import Role
from crawlfleet.telemetry import Component, logger

log = logger(Component.API)

READERS: Final = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS: Final = frozenset({Role.OPERATOR, Role.ADMIN})
NODES: Final = frozenset({Role.NODE, Role.ADMIN})
ADMINS: Final = frozenset({Role.ADMIN})
ANYONE: Final[frozenset[Role]] = frozenset()
NOT_KEPT: Final = {"Cache-Control": "no-store"}
"""Headers of answers that show a secret."""


class Scope(StrEnum):
    """Access to a route by a key that is bound to one project."""

    FLEET = "fleet"
    """The route concerns all projects; the request is refused."""
    PATH = "path"
    """The path names a task, an execution, a project or a cluster; those of other projects are
    answered as not found."""
    OWN = "own"
    """The handler shows and changes only things of `call.caller.project_id`."""
    PUBLIC = "public"
    """The route shows nothing that belongs to a project."""


class _IdConvertor(Convertor[str]):
    """An id ends where the verb begins."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A body or query that may hold nothing."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated request whose path, query and body were parsed."""

    services: Services
    caller: Principal
    path: dict[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]
    requests: RequestMeasurements
    """The API's own measurements."""
    hung_up: Callable[[], Coroutine[Any, Any, None]]
    """Wait until the caller has disconnected; only for handlers that take long."""
    connection: NodeConnection
    sign_in: Callable[..., AbstractAsyncContextManager[Principal]]
    """Authenticate a `key` or `link`; changes within the block are audited under its name."""
    is_secure: bool = False
    """True if the browser reached us by TLS."""

    def service(self, kind: type[Service]) -> Service:
        """The service of the master with this type."""
        return self.services.get(kind)

    @property
    def project_id(self) -> str | None:
        """The only project that exists for the caller; all of them when not set."""
        return self.caller.project_id


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer other than a plain 200."""

    body: Any
    """Encoded as JSON, unless it is bytes already."""
    status: HTTPStatus = HTTPStatus.OK
    headers: dict[str, str] = {}
    media_type: str = JSON


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A request body and an answer as JSON values; `None` where there is none."""

    request: Any = None
    response: Any = None


Handler = Callable[[Call], Awaitable[Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the API."""

    name: str
    """Unique and stable name; client generators make function names from it."""
    method: str
    path: str
    roles: frozenset[Role]
    """Roles that may use the route; no key is needed where this is `ANYONE`."""
    handler: Handler
    client: str = ""
    """The Python client's call for this route, such as `explain(task_id)`. Empty for routes that
    only nodes or browsers use, and for the API of another system."""
    command: str = ""
    """The command that uses the route, such as `tasks show`."""
    no_command: str = ""
    """Reason why no command uses the route; not set for routes that only nodes use."""
    summary: str
    response: Any
    """Type of the answer; `str` where the answer is not JSON."""
    details: str = ""
    """Further description as Markdown. Links are relative to `docs/reference/api.md`; the OpenAPI
    document has only their texts."""
    section: str = ""
    """Section of the reference, where the path does not name it."""
    body: type[Any] = Nothing
    query: type[Any] = Nothing
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    """Statuses of answers of the type `response`, the usual one first."""
    media_types: tuple[str, ...] = (JSON,)
    scope: Scope | None = None
    """Access by keys of one project; they are refused when it is not set."""
    is_audited: bool | None = None
    """True if changes are written to the audit log; `None`: all requests but `GET` are."""
    joins: bool = False
    """True if the route registers a node; a join token is valid for such routes only."""
    conflicts: bool = False
    """True if a request may conflict with the present state (409)."""
    etag: bool = False
    """True if the answer has an `ETag`, and the request may name one (see `etags`)."""
    signs_in: bool = False
    """True if the handler checks a key or link from the request body."""
    example: Example = Example()


def mount(
    routes: Sequence[Route],
    services: Services,
    requests: RequestMeasurements,
    authenticator: Authenticator,
    *,
    max_body_bytes: int,
) -> list[StarletteRoute]:
    """Return the table as Starlette routes, which are tried in order: those for nodes first, since
    they are requested many times a second, and took 50 µs more each time behind all others."""
    return [
        StarletteRoute(
            route.path.replace("_id}", "_id:id}"),
            _measured(
                route, requests, _endpoint(route, services, requests, authenticator, max_body_bytes)
            ),
            methods=[route.method],
        )
        for route in sorted(routes, key=lambda each: each.roles != NODES)
    ]


def _measured(route: Route, requests: RequestMeasurements, endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            response = await endpoint(request)
            status = response.status_code
        finally:
            requests.count(route.method, route.path, status, loop.time() - begun)
        return response

    return answer


def _endpoint(
    route: Route,
    services: Services,
    requests: RequestMeasurements,
    authenticator: Authenticator,
    max_body_bytes: int,
) -> Endpoint:
    # Also if an administrator speaks for a node.
    is_of_nodes = route.roles == NODES

    async def answer(request: Request) -> Response:
        client: ClientAddress = request.scope[CLIENT]
        connection: NodeConnection = request.scope[CONNECTION]
        try:
            caller = await _authorised(request, route, services, authenticator, client)
            speaker = caller.node_id or (is_of_nodes and request.path_params.get("node_id"))
            if speaker:
                services.get(LostConnections).note_request(speaker, connection)
            if caller.project_id is not None:
                await _check_scope(request, route, services, caller)
            body = await _body(request, route, max_body_bytes)
            asked = request.query_params.multi_items() if request.scope["query_string"] else ()
            query = decode_query(asked, route.query)
            call = Call(
                services=services,
                caller=caller,
                path=request.path_params,
                query=query,
                body=body,
                headers=request.headers,
                requests=requests,
                hung_up=lambda: _hung_up(request),
                connection=connection,
                sign_in=partial(_sign_in, request, route, authenticator, client),
                is_secure=request.scope["scheme"] == "https",
            )
            if is_audited(route):
                with leaving(_trail(route, caller, client)):
                    reply = await route.handler(call)
            else:
                reply = await route.handler(call)
        except ClientDisconnect:
            return Response(status_code=400)
        except CrawlfleetError as error:
            if not is_known(error):
                log.exception("request failed", method=route.method, path=request.url.path)
                return respond(
                    problem(
                        HTTPStatus.INTERNAL_SERVER_ERROR,
                        "internal",
                        "the master could not do this; its log says why",
                        place(request),
                    )
                )
            return respond(problem_of(error, place(request)), headers_of(error))
        response = _response(request, reply)
        if caller.session_hash:
            keep_inert(response)
        return response

    return answer


@asynccontextmanager
async def _sign_in(
    request: Request,
    route: Route,
    authenticator: Authenticator,
    client: ClientAddress,
    **shown: str | None,
) -> AsyncIterator[Principal]:
    known = await authenticator.sign_in(request, client, **shown)
    with leaving(_trail(route, known, client)):
        yield known


def _response(request: Request, reply: Any) -> Response:
    if isinstance(reply, Response):
        return reply
    if not isinstance(reply, Reply):
        reply = Reply(body=reply)
    body = reply.body
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    content, headers = packed(content, reply.headers, request)
    return Response(content, status_code=reply.status, media_type=reply.media_type, headers=headers)


async def _authorised(
    request: Request,
    route: Route,
    services: Services,
    authenticator: Authenticator,
    client: ClientAddress,
) -> Principal:
    if not route.roles:
        return Principal(role=Role.VIEWER, name="anyone")
    with authenticator.log_refusals(client, request):
        caller = await authenticator.authenticate(request, client)
    if caller.role not in route.roles:
        authenticator.refuse("role", client, request, caller.name)
        needed = " or ".join(sorted(route.roles))
        raise Refused(f"this needs the role {needed}; the key {caller.name!r} is {caller.role}")
    if caller.role is Role.NODE and not _is_for(caller, request, route, services):
        authenticator.refuse("other_node", client, request, caller.name)
        named = request.path_params.get("node_id", request.path_params.get("device_id"))
        raise Refused(f"only {named or 'a node'} itself may do this, with its own node token")
    if caller.project_id is not None and route.scope in {None, Scope.FLEET}:
        authenticator.refuse("scope", client, request, caller.name)
        raise Refused(
            f"the key {caller.name!r} is bound to the project {caller.project_id!r}, "
            "and this concerns the whole fleet; use a key that is not bound"
        )
    return caller


def _is_for(caller: Principal, request: Request, route: Route, services: Services) -> bool:
    """Return whether a node's key or a join token may use the path: a node only for itself, a join
    token only to register."""
    if route.joins:
        return True
    named = request.path_params
    if "device_id" in named:
        device = services.get(Nodes).known_as(named["device_id"])
        return device is not None and caller.node_id == device.id
    return caller.node_id is not None and named.get("node_id") in (None, caller.node_id)


async def _check_scope(
    request: Request, route: Route, services: Services, caller: Principal
) -> None:
    """Raise `NotFound` if the path names a thing of another project than the caller's."""
    if route.scope is not Scope.PATH:
        return
    named = request.path_params
    if "cluster_id" in named:
        cluster_id = check_id("cluster", named["cluster_id"])
        await services.get(Clusters).find(cluster_id, project_id=caller.project_id)
        return
    for kind, project_of in _PROJECT_OF.items():
        if f"{kind}_id" in named:
            id = check_id(kind, named[f"{kind}_id"])
            if await project_of(services, id) != caller.project_id:
                raise NotFound(kind, id)
            return
    if named.get("project_id") != caller.project_id:
        raise NotFound("project", named.get("project_id", "")[:MAX_ID_CHARACTERS])


async def _of_task(services: Services, id: str) -> str:
    return (await services.get(Tasks).get(id)).project_id


async def _of_execution(services: Services, id: str) -> str:
    return await _of_task(services, (await services.get(Logs).execution(id)).task_id)


async def _of_schedule(services: Services, id: str) -> str:
    return (await services.get(Schedules).find(id)).project_id


async def _of_webhook(services: Services, id: str) -> str | None:
    return (await services.get(Webhooks).get(id)).project_id


async def _of_alert(services: Services, id: str) -> str | None:
    return (await services.get(Alerts).get(id)).project_id


async def _of_workflow(services: Services, id: str) -> str:
    return (await services.get(Workflows).get(id)).project_id


async def _of_run(services: Services, id: str) -> str:
    return (await services.get(Workflows).run(id)).project_id


_PROJECT_OF: Final[dict[str, Callable[[Services, str], Awaitable[str | None]]]] = {
    "task": _of_task,
    "execution": _of_execution,
    "schedule": _of_schedule,
    "webhook": _of_webhook,
    "alert": _of_alert,
    "workflow": _of_workflow,
    "run": _of_run,
}
"""Functions that return the project of the thing that a path names; each raises `NotFound` if it
does not exist."""


def is_audited(route: Route) -> bool:
    """Return whether changes through this route are written to the audit log."""
    return route.method != "GET" if route.is_audited is None else route.is_audited


def _trail(route: Route, caller: Principal, client: ClientAddress) -> AuditTrail:
    return AuditTrail(
        AuditEntry(
            id="",
            at=0.0,
            actor=caller.name,
            actor_id=caller.key_id or caller.node_id or "",
            role=str(caller.role),
            address=client.address,
            action=route.name,
            project_id=caller.project_id,
        )
    )


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, route: Route, max_bytes: int) -> Any:
    if route.method == "GET":
        return None
    return decode_body(await read_body(request, max_bytes=max_bytes), route.body)
