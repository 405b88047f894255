"""The whole application: the route table over a control plane."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from crawlfleet.api.distribution import routes
from crawlfleet.api.docs import documentation
from crawlfleet.api.http import metrics
from crawlfleet.api.http.authentication import AddressFilter, Authenticator
from crawlfleet.api.http.measurements import RequestMeasurements
from crawlfleet.api.http.problems import place, problem, respond
from crawlfleet.api.http.routing import Route, mount
from crawlfleet.api.routes import (
    alerts,
    audit,
    breakers,
    bundles,
    clusters,
    crawls,
    dead_letters,
    events,
    executions,
    hosts,
    join_tokens,
    keys,
    node_services,
    nodes,
    overview,
    projects,
    quality,
    quotas,
    runs,
    schedules,
    secrets,
    settings,
    sign_in,
    system,
    task_orders,
    tasks,
    usage,
    webhooks,
    workflows,
)
from crawlfleet.control.access.authentication import Authentication
from crawlfleet.control.services import Services
from crawlfleet.model.settings import ServerSettings
from crawlfleet.telemetry import Component, logger

log = logger(Component.API)

ROUTES: Final[tuple[Route, ...]] = (
    *tasks.ROUTES,
    *task_orders.ROUTES,
    *executions.ROUTES,
    *crawls.ROUTES,
    *dead_letters.ROUTES,
    *schedules.ROUTES,
    *workflows.ROUTES,
    *runs.ROUTES,
    *webhooks.ROUTES,
    *alerts.ROUTES,
    *nodes.ROUTES,
    *node_services.ROUTES,
    *hosts.ROUTES,
    *breakers.ROUTES,
    *projects.ROUTES,
    *quotas.ROUTES,
    *usage.ROUTES,
    *quality.ROUTES,
    *bundles.ROUTES,
    *secrets.ROUTES,
    *clusters.ROUTES,
    *settings.ROUTES,
    *keys.ROUTES,
    *join_tokens.ROUTES,
    *sign_in.ROUTES,
    *events.ROUTES,
    *audit.ROUTES,
    *system.ROUTES,
    *overview.ROUTES,
    *metrics.ROUTES,
    *routes.ROUTES,
    *documentation.routes(lambda: ROUTES),
)


Pages = Callable[[Request], Awaitable[Response | None]]
"""Handler of paths outside the API, such as the dashboard; returns `None` for an unknown path."""


def create_app(
    services: Services, server: ServerSettings, *, pages: Pages | None = None
) -> Starlette:
    """The API over a running control plane, and pages beside it."""
    requests = RequestMeasurements()
    authenticator = Authenticator(
        authentication=services.get(Authentication),
        requests=requests,
        wrong_keys_per_minute=server.wrong_keys_per_minute,
    )
    max_body_bytes = int(server.max_body_mb * 1e6)
    app = Starlette(
        routes=mount(ROUTES, services, requests, authenticator, max_body_bytes=max_body_bytes),
        middleware=[Middleware(AddressFilter, settings=server, refuse=authenticator.refuse)],
        exception_handlers={HTTPException: _no_such_route, Exception: _defect},
    )
    # A path has one spelling: a redirect would lose bodies and keys on the way.
    app.router.redirect_slashes = False
    app.state.requests = requests
    app.state.pages = pages
    return app


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    pages: Pages | None = request.app.state.pages
    if pages is not None and (page := await pages(request)) is not None:
        return page
    request.app.state.requests.count_strange(error.status_code)
    here, asked = place(request), f"{request.method} {place(request)}"
    if methods := _methods(request):
        allowed = ", ".join(methods)
        detail = f"{asked} is not part of this API; this path takes {allowed}"
        status = HTTPStatus.METHOD_NOT_ALLOWED
        return respond(problem(status, "method-not-allowed", detail, here), {"Allow": allowed})
    detail = f"{asked} is not part of this API; check the path and its verb"
    return respond(problem(HTTPStatus(error.status_code), "no-such-route", detail, here))


def _methods(request: Request) -> list[str]:
    """Return all methods that the path allows; each route knows only its own."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, StarletteRoute) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


async def _defect(request: Request, error: Exception) -> Response:
    log.error("a defect", path=request.url.path, error=repr(error))
    return respond(
        problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "internal",
            "the master could not do this; its log says why",
            place(request),
        )
    )
