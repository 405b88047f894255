"""Whether the master is alive and ready, and the fleet in a few numbers."""

from http import HTTPStatus
from typing import Final

from crawlfleet import __version__
from crawlfleet.api.routing import ANYONE, READERS, Call, Reply, Route
from crawlfleet.model.views import FleetStatus


async def healthz(call: Call) -> dict[str, str]:
    return {"status": "alive"}


async def readyz(call: Call) -> Reply:
    if call.control.state.signals.doubt.is_set():
        return Reply(
            body={"status": "not ready", "reason": "the store does not answer"},
            status=HTTPStatus.SERVICE_UNAVAILABLE,
        )
    return Reply(body={"status": "ready"})


async def status(call: Call) -> FleetStatus:
    totals = await call.control.queries.totals()
    return FleetStatus(version=__version__, epoch=call.control.state.epoch, totals=totals)


ROUTES: Final = (
    Route(
        method="GET",
        path="/healthz",
        roles=ANYONE,
        handler=healthz,
        summary="Whether the process is alive",
    ),
    Route(
        method="GET",
        path="/readyz",
        roles=ANYONE,
        handler=readyz,
        summary="Whether the master can do its work",
    ),
    Route(
        method="GET",
        path="/api/v1/status",
        roles=READERS,
        handler=status,
        summary="The fleet in a few numbers",
    ),
)
