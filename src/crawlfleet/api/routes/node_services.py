"""/api/v1/nodes/{node_id}/services/{service}: requests of executions to the master."""

from typing import Final

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import NODES, NOT_KEPT, Call, Example, Reply, Route, Scope
from crawlfleet.control.leases.services import NodeServices
from crawlfleet.model.wire.services import ServiceRequest, ServiceResponse


async def answer(call: Call) -> Reply:
    node_id = check_id("node", call.path["node_id"])
    response = await call.service(NodeServices).answer(node_id, call.path["service"], call.body)
    return Reply(body=response, headers=NOT_KEPT)  # it may hold secrets


ROUTES: Final = (
    Route(
        name="request_service",
        is_audited=False,
        method="POST",
        path="/api/v1/nodes/{node_id}/services/{service}",
        roles=NODES,
        scope=Scope.FLEET,
        handler=answer,
        summary="Request something of the master for an execution",
        details="In the name of an execution that the node holds. The services are `output` (store "
        "a segment of a crawl's output), `frontier` (lease URLs of a crawl and commit what came of "
        "them), `locks`, `ledger` (when a host may be visited), `code` and `secrets` of the "
        "execution, and `bundle`, which the node uses for itself. `payload` and `data` are as the "
        "[node protocol](node-protocol.md#services) describes for each service. A `refusal` says "
        "why nothing was done, and `may_retry` whether the same request may succeed later. A "
        "request may be sent again when no answer came. Only the master that leads has frontiers, "
        "and the ledger unless that is kept in Redis; others answer 503.",
        body=ServiceRequest,
        response=ServiceResponse,
        example=Example(request=examples.SERVICE_REQUEST, response=examples.SERVICE_RESPONSE),
    ),
)
