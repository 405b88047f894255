"""The route table and the one way through it: key, role, body, handler, answer.

A route says everything about itself, so that what checks, documents or calls it needs no second
description. Paths may end in a verb (`/nodes/{id}:drain`), as the API's own style has it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from crawlfleet.api.decoding import decode_body, decode_query
from crawlfleet.api.problems import Malformed, is_known, place, problem, problem_of, respond
from crawlfleet.api.requests import Requests
from crawlfleet.control.keys import Principal
from crawlfleet.control.supervisor import ControlPlane
from crawlfleet.errors import CrawlfleetError, Refused, Unauthenticated
from crawlfleet.model.key import Role
from crawlfleet.telemetry import Component, logger

log = logger(Component.API)

READERS: Final = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS: Final = frozenset({Role.OPERATOR, Role.ADMIN})
NODES: Final = frozenset({Role.NODE, Role.ADMIN})
ADMINS: Final = frozenset({Role.ADMIN})
ANYONE: Final[frozenset[Role]] = frozenset()
JSON: Final = "application/json"


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
    """A request that was let in and understood."""

    control: ControlPlane
    caller: Principal
    path: dict[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]
    requests: Requests
    """What the API has measured of itself."""
    hung_up: Callable[[], Coroutine[Any, Any, None]]
    """Waits until the caller is gone; only for handlers that take long."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer other than a plain 200."""

    body: Any
    """Encoded as JSON, unless it is bytes already."""
    status: HTTPStatus = HTTPStatus.OK
    headers: dict[str, str] = {}
    media_type: str = JSON


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """What may be sent and answered, as JSON values; `None` where there is nothing to show."""

    request: Any = None
    response: Any = None


Handler = Callable[[Call], Awaitable[Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked of the master."""

    name: str
    """Stable, and the only one: generators of clients make names of functions from it."""
    method: str
    path: str
    roles: frozenset[Role]
    """Who may; nobody needs a key where this is `ANYONE`."""
    handler: Handler
    summary: str
    response: Any
    """The type of the answer; what is not JSON is `str`."""
    details: str = ""
    """What the summary has no room for, as Markdown."""
    body: type[Any] = Nothing
    query: type[Any] = Nothing
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    """Those with which it answers `response`, the usual one first."""
    media_types: tuple[str, ...] = (JSON,)
    conflicts: bool = False
    """Whether what is asked may contradict the present state."""
    etag: bool = False
    """Whether the answer has an `ETag`, and the request may name one (see `etags`)."""
    example: Example = Example()


def mount(
    routes: Sequence[Route], control: ControlPlane, requests: Requests, *, max_body_bytes: int
) -> list[StarletteRoute]:
    """The table as Starlette routes."""
    return [
        StarletteRoute(
            route.path.replace("_id}", "_id:id}"),
            _measured(route, requests, _endpoint(route, control, requests, max_body_bytes)),
            methods=[route.method],
        )
        for route in routes
    ]


def _measured(route: Route, requests: Requests, endpoint: Endpoint) -> Endpoint:
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
    route: Route, control: ControlPlane, requests: Requests, max_body_bytes: int
) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            caller = await _admitted(request, route, control)
            body = await _body(request, route, max_body_bytes)
            query = decode_query(request.query_params.multi_items(), route.query)
            reply = await route.handler(
                Call(
                    control=control,
                    caller=caller,
                    path=request.path_params,
                    query=query,
                    body=body,
                    headers=request.headers,
                    requests=requests,
                    hung_up=lambda: _hung_up(request),
                )
            )
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
            return respond(problem_of(error, place(request)))
        if isinstance(reply, Response):
            return reply
        if not isinstance(reply, Reply):
            reply = Reply(body=reply)
        body = reply.body
        return Response(
            body if isinstance(body, bytes) else msgspec.json.encode(body),
            status_code=reply.status,
            media_type=reply.media_type,
            headers=reply.headers,
        )

    return answer


async def _admitted(request: Request, route: Route, control: ControlPlane) -> Principal:
    if not route.roles:
        return Principal(role=Role.VIEWER, name="anyone")
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthenticated("send a key: `Authorization: Bearer KEY`")
    caller = await control.authenticate(secret.strip())
    if caller.role not in route.roles:
        needed = " or ".join(sorted(route.roles))
        raise Refused(f"this needs the role {needed}; the key {caller.name!r} is {caller.role}")
    node_id = request.path_params.get("node_id")
    if caller.role is Role.NODE and node_id is not None and caller.node_id != node_id:
        # A join key is nobody's token, and a node may act only for itself.
        raise Refused(f"only {node_id} itself may do this, with its own node token")
    return caller


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, route: Route, max_bytes: int) -> Any:
    if route.method == "GET":
        return None
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    content_type = request.headers.get("content-type", JSON).partition(";")[0]
    if size and content_type.strip().lower() not in {JSON, ""}:
        raise Malformed(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            f"the body is {content_type!r}; send {JSON}",
        )
    return decode_body(b"".join(chunks), route.body)


def _too_large(max_bytes: int) -> Malformed:
    return Malformed(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"the body is larger than {max_bytes / 1e6:g} MB; send less at once",
    )
