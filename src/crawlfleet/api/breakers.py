"""/api/v1/breakers: sites that are taken for down, and tasks that wait for them."""

from typing import Final

import msgspec

from crawlfleet.api import examples_breakers as examples
from crawlfleet.api.presenting import instant, moment
from crawlfleet.api.routing import OPERATORS, READERS, Call, Example, Route, Scope
from crawlfleet.api.selecting import PageSize, check_id
from crawlfleet.model.breaker import Breaker, BreakerState
from crawlfleet.model.breaker_views import BreakerList, BreakerView


class BreakerQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    all: bool = False
    """Also those whose failures are only counted."""
    limit: PageSize = 100
    """How many at most."""


async def find(call: Call) -> BreakerList:
    query: BreakerQuery = call.query
    found = call.control.breakers.page(all=query.all)
    return BreakerList(
        items=[present_breaker(*each) for each in found[: query.limit]], total=len(found)
    )


async def close(call: Call) -> BreakerView:
    target = check_id("target", call.path["target"])
    await call.control.breakers.close(target, by=call.caller.name)
    return BreakerView(target=target, state="closed", failures=0)


def present_breaker(breaker: Breaker, waiting: int) -> BreakerView:
    is_open = breaker.state is not BreakerState.CLOSED
    return BreakerView(
        target=breaker.target,
        state=breaker.state.value,
        failures=breaker.failures,
        since=moment(breaker.since),
        opened_at=instant(breaker.opened_at),
        retry_at=moment(breaker.retry_at) if is_open else None,
        probe=breaker.probe,
        error=breaker.error,
        waiting=waiting,
    )


ROUTES: Final = (
    Route(
        name="list_breakers",
        method="GET",
        path="/api/v1/breakers",
        roles=READERS,
        scope=Scope.FLEET,
        handler=find,
        summary="See which sites are taken for down",
        details="Targets of tasks that failed and failed, in order, and how many tasks wait for "
        "each.",
        query=BreakerQuery,
        response=BreakerList,
        example=Example(response=examples.BREAKERS),
    ),
    Route(
        name="close_breaker",
        method="POST",
        path="/api/v1/breakers/{target}:close",
        roles=OPERATORS,
        scope=Scope.FLEET,
        handler=close,
        summary="Let all tasks for a site go on",
        details="Its failures are forgotten. Closing it again changes nothing more.",
        response=BreakerView,
        example=Example(response=examples.CLOSED),
    ),
)
