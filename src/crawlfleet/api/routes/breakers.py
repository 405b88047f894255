"""/api/v1/breakers: circuit breakers of sites, and tasks that wait for them."""

from typing import Final

import msgspec

from crawlfleet.api.examples import breakers as examples
from crawlfleet.api.http.parameters import PageSize, check_id, invalid
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Route, Scope
from crawlfleet.control.breakers import BreakerOrders
from crawlfleet.views.breakers import BreakerClosing, BreakerList, BreakerView


class BreakerQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    project_id: str | None = None
    """List only breakers of this project."""
    all: bool = False
    """List closed breakers that count failures, too."""
    limit: PageSize = 100
    """Maximum number of breakers."""


async def find(call: Call) -> BreakerList:
    query: BreakerQuery = call.query
    own = call.project_id
    if own is not None and query.project_id not in (None, own):
        return BreakerList(items=[], total=0)
    found = call.service(BreakerOrders).page(all=query.all, project_id=own or query.project_id)
    return BreakerList(
        items=[BreakerView.of(*each) for each in found[: query.limit]], total=len(found)
    )


async def close(call: Call) -> BreakerView:
    target = check_id("target", call.path["target"])
    request: BreakerClosing = call.body
    own = call.project_id
    if own is not None and request.project_id not in (None, own):
        raise invalid(
            "project_id",
            "is not the project of your key",
            f"leave it out, or say {own!r}",
            request.project_id,
        )
    project_id = own or request.project_id
    if project_id is not None:
        check_id("project_id", project_id)
    await call.service(BreakerOrders).close(target, by=call.caller.name, project_id=project_id)
    return BreakerView(project_id=project_id, target=target, state="closed", failures=0)


ROUTES: Final = (
    Route(
        name="list_breakers",
        method="GET",
        path="/api/v1/breakers",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='breakers(all=True, project_id="shop")',
        command="breakers list",
        summary="See which sites are taken for down",
        details="Targets of tasks that failed and failed, in order, `limit` of `total` of "
        "them, and how many tasks wait for each. Each project has its own; a key of one project "
        "sees those. With `all` those, too, whose failures are only counted. Tasks for a target "
        "that is `open` wait; while it is `probing` one of them, the `probe`, was let through; "
        "`retry_at` is when the next is ([guide](../guides/retries.md#sites-that-are-down)).",
        query=BreakerQuery,
        response=BreakerList,
        example=Example(response=examples.BREAKERS),
    ),
    Route(
        name="close_breaker",
        method="POST",
        path="/api/v1/breakers/{target}:close",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=close,
        client='close_breaker(target, project_id="shop")',
        command="breakers close",
        summary="Let all tasks for a site go on",
        details="Its failures are forgotten: those of the tasks of `project_id`, or of all "
        "projects if none is said. A key of one project closes that project's. Closing it again "
        "changes nothing more.",
        body=BreakerClosing,
        response=BreakerView,
        example=Example(request=examples.CLOSING, response=examples.CLOSED),
    ),
)
