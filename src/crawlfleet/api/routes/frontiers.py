"""/api/v1/nodes/{node_id}:frontier: the frontiers of crawls, for the nodes that run them"""

from typing import Final

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import NODES, Call, Example, Route, Scope
from crawlfleet.model.wire.frontier import FrontierCall, FrontierReply


async def ask(call: Call) -> FrontierReply:
    node_id = check_id("node", call.path["node_id"])
    return await call.control.frontiers.ask(node_id, call.body)


ROUTES: Final = (
    Route(
        name="ask_frontier",
        is_audited=False,
        method="POST",
        path="/api/v1/nodes/{node_id}:frontier",
        roles=NODES,
        scope=Scope.FLEET,
        handler=ask,
        summary="Lease URLs of a crawl, and commit what came of them",
        details="What the execution of a crawl asks of the frontier that the master keeps for "
        "it; `session_id`, `execution_id` and `token` must be those of a living lease. `data` "
        "holds several calls at once, packed and in base64, and so does the answer; the form is "
        "that of the [node protocol](node-protocol.md). `standing` is `done`; `stale` when the "
        "execution is not the node's (any more); `refused`, with a message, when it cannot be "
        "done. The same may be asked again when no answer came: a lease and a step are done "
        "once. Only the master that leads has frontiers; the others answer 503.",
        body=FrontierCall,
        response=FrontierReply,
        example=Example(request=examples.FRONTIER_CALL, response=examples.FRONTIER_REPLY),
    ),
)
