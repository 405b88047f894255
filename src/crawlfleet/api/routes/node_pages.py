"""`GET /api/v1/nodes`: all nodes, or those that are asked for."""

from itertools import islice
from typing import Final

import msgspec

from crawlfleet.api.http.parameters import PageSize, check_id_cursor
from crawlfleet.api.http.routing import READERS, Call, Route, Scope
from crawlfleet.model.node import NodeStatus
from crawlfleet.views.presenting import present_node
from crawlfleet.views.tasks import NodePage


class NodeQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    status: NodeStatus | msgspec.UnsetType = msgspec.UNSET
    """Only nodes in this state."""
    cluster_id: str | None = None
    """Only nodes of this cluster."""
    cursor: str | None = None
    """The `next_cursor` of the page before."""
    limit: PageSize | msgspec.UnsetType = msgspec.UNSET
    """How many at most; all of them when not set."""


async def find(call: Call) -> NodePage:
    query: NodeQuery = call.query
    after = check_id_cursor(query.cursor)
    # They are in the order of their ids.
    found = (
        each
        for each in call.control.queries.nodes()
        if query.status in (msgspec.UNSET, each.node.status)
        and query.cluster_id in (None, each.node.cluster_id)
        and (after is None or each.node.id > after)
    )
    page = list(islice(found, None if query.limit is msgspec.UNSET else query.limit))
    is_last = next(found, None) is None
    return NodePage(
        items=[present_node(each) for each in page],
        next_cursor=None if is_last else page[-1].node.id,
    )


ROUTES: Final = (
    Route(
        name="list_nodes",
        method="GET",
        path="/api/v1/nodes",
        roles=READERS,
        scope=Scope.FLEET,
        handler=find,
        summary="List nodes with their newest figures",
        details="In the order of their registration; all of them, unless a `limit` is set.",
        query=NodeQuery,
        response=NodePage,
    ),
)
