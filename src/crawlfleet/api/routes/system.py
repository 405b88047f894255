"""Liveness and readiness of the master, and the fleet in a few numbers."""

from http import HTTPStatus
from typing import Final

from crawlfleet import __version__
from crawlfleet.api.examples import tasks
from crawlfleet.api.http.routing import ANYONE, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.statistics import Statistics
from crawlfleet.views.status import FleetStatus, Liveness


async def healthz(call: Call) -> Liveness:
    return Liveness(status="alive")


async def readyz(call: Call) -> Reply:
    if why := await call.service(FleetState).trouble():
        return _not_ready(why)
    try:
        now = await call.service(ThisMaster).leadership()
    except StoreUnavailable as error:
        return _not_ready(str(error))
    return Reply(
        body=Liveness(
            status="ready",
            leader=call.service(ThisMaster).leads,
            epoch=now.epoch,
            led_by=now.leader,
        )
    )


def _not_ready(reason: str) -> Reply:
    return Reply(
        body=Liveness(status="not ready", reason=reason), status=HTTPStatus.SERVICE_UNAVAILABLE
    )


async def status(call: Call) -> FleetStatus:
    totals = await call.service(TaskQueries).totals(call.project_id)
    now = await call.service(ThisMaster).leadership()
    return FleetStatus(
        version=__version__,
        epoch=now.epoch,
        totals=totals,
        leader=call.service(ThisMaster).leads,
        led_by=now.leader,
    )


async def statistics(call: Call) -> Statistics:
    return await call.service(TaskQueries).statistics(call.project_id)


ROUTES: Final = (
    Route(
        name="get_liveness",
        method="GET",
        path="/healthz",
        roles=ANYONE,
        scope=Scope.PUBLIC,
        handler=healthz,
        client="liveness()",
        no_command="for whatever supervises the process; `doctor` asks the master more",
        summary="Whether the process is alive",
        response=Liveness,
        example=Example(response=tasks.ALIVE),
    ),
    Route(
        name="get_readiness",
        method="GET",
        path="/readyz",
        roles=ANYONE,
        scope=Scope.PUBLIC,
        handler=readyz,
        client="readiness()",
        no_command="for a load balancer; `doctor` asks the master more",
        summary="Whether the master can do its work",
        details="503 with a `reason` when not. `leader` says whether this master leads, "
        "`led_by` which one does; a master that does not lead is ready, too: each takes all "
        "requests.",
        response=Liveness,
        statuses=(HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE),
        example=Example(response=tasks.READY),
    ),
    Route(
        name="get_status",
        method="GET",
        path="/api/v1/status",
        roles=READERS,
        scope=Scope.OWN,
        handler=status,
        client="status()",
        command="status",
        summary="The fleet in a few numbers",
        details="The counts are those after the last commit: what was answered before is in "
        "them. On SQLite the master keeps them, so that asking costs the same however many "
        "tasks there are; it counts all tasks once, when it starts. On PostgreSQL they are "
        "counted anew when something was committed since, once for all who ask this master at "
        "the same time.",
        response=FleetStatus,
        example=Example(response=tasks.STATUS),
    ),
    Route(
        name="get_statistics",
        method="GET",
        path="/api/v1/statistics",
        roles=READERS,
        scope=Scope.OWN,
        handler=statistics,
        client="statistics()",
        command="statistics",
        summary="How the fleet does, and did in the last hour",
        details="`throughput` and `failures` (of attempts, by error class, in the last hour) "
        "are counted by this master since `since`, and begin anew when it starts: of several "
        "masters each counts what it did itself. `seconds` is how much of a window that covers. "
        "`oldest_ready_s` is the age of the task that has been ready for the longest time.",
        response=Statistics,
        example=Example(response=tasks.STATISTICS),
    ),
)
