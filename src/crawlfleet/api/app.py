"""The whole application: the route table over a control plane."""

from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api import nodes, system, tasks
from crawlfleet.api.problems import problem, respond
from crawlfleet.api.routing import Route, mount
from crawlfleet.control.supervisor import ControlPlane
from crawlfleet.model.settings import ServerSettings
from crawlfleet.telemetry import Component, logger

log = logger(Component.API)

ROUTES: Final[tuple[Route, ...]] = (*tasks.ROUTES, *nodes.ROUTES, *system.ROUTES)


def create_app(control: ControlPlane, settings: ServerSettings) -> Starlette:
    """The API over a running control plane."""
    return Starlette(
        routes=mount(ROUTES, control, max_body_bytes=int(settings.max_body_mb * 1e6)),
        exception_handlers={HTTPException: _no_such_route, Exception: _defect},
    )


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {request.url.path} is not part of this API"
    slug = "method-not-allowed" if status is HTTPStatus.METHOD_NOT_ALLOWED else "no-such-route"
    return respond(problem(status, slug, detail, request.url.path), dict(error.headers or {}))


async def _defect(request: Request, error: Exception) -> Response:
    log.error("a defect", path=request.url.path, error=repr(error))
    return respond(
        problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "internal",
            "the master could not do this; its log says why",
            request.url.path,
        )
    )
