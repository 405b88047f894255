"""/api/v1/nodes/{node_id}:keep: the output of crawls, from the nodes that run them"""

from typing import Final

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import NODES, Call, Example, Route, Scope
from crawlfleet.model.wire.output import SegmentReply, SegmentUpload


async def keep(call: Call) -> SegmentReply:
    node_id = check_id("node", call.path["node_id"])
    return await call.control.crawls.keep(node_id, call.body)


ROUTES: Final = (
    Route(
        name="keep_segment",
        is_audited=False,
        method="POST",
        path="/api/v1/nodes/{node_id}:keep",
        roles=NODES,
        scope=Scope.FLEET,
        handler=keep,
        summary="Hand over a piece of a crawl's output",
        details="Answered `kept` when the piece is durable; only then may the crawl commit it. "
        "`full`: there is no room now, send it again later. `stale`: the execution is not the "
        "node's any more. The same piece may be sent again.",
        body=SegmentUpload,
        response=SegmentReply,
        example=Example(request=examples.SEGMENT, response=examples.SEGMENT_REPLY),
    ),
)
