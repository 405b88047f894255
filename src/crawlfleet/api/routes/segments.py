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
        details="`stream` is `items`, or `pages` for a WARC archive. A `segment` has its "
        "`sequence`, the `first` one of the same step of the crawl, and the last that was "
        "`counted` when it was made; what lies between that and `first` was taken back. Its "
        "`data` is packed by zlib, at most a million bytes, and base64. `verdict` is `kept` "
        "when the piece is durable, and only then may the crawl commit it; `full` when there is "
        "no room now: send it again later; `stale` when the execution is not the node's (any "
        "more), by its `session_id`, `execution_id` and `token`. The same piece may be sent "
        "again.",
        body=SegmentUpload,
        response=SegmentReply,
        example=Example(request=examples.SEGMENT, response=examples.SEGMENT_REPLY),
    ),
)
