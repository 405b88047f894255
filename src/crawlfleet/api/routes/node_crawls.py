"""/api/v1/nodes/{node_id}:inquire and /api/v1/hosts: locks, and when a host may be visited"""

from typing import Final

import msgspec

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import PageSize, check_id
from crawlfleet.api.http.routing import NODES, READERS, Call, Example, Route, Scope
from crawlfleet.features.crawls.views import HostUses
from crawlfleet.model.wire.execution_requests import Finding, InquiryCall


class HostQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    containing: str = ""
    """Only hosts, domains and addresses with this text in them."""
    limit: PageSize = 100
    """How many at most."""


async def inquire(call: Call) -> Finding:
    node_id = check_id("node", call.path["node_id"])
    return await call.control.inquiries.answer(node_id, call.body)


async def hosts(call: Call) -> HostUses:
    query: HostQuery = call.query
    found = await call.control.inquiries.hosts(query.containing)
    return HostUses(items=tuple(found[: query.limit]), total=len(found))


ROUTES: Final = (
    Route(
        name="inquire",
        is_audited=False,
        method="POST",
        path="/api/v1/nodes/{node_id}:inquire",
        roles=NODES,
        scope=Scope.FLEET,
        handler=inquire,
        summary="Ask for a lock, or when a host may be visited",
        details="In the name of an execution that the node holds, by its `session_id`, "
        "`execution_id` and `token`. Either `lock`: a `verb` (`take`, `renew`, `release`), "
        "`name`, `number` (which hold of the execution), `lease_s`, `token`; or `ledger`: "
        "`wants`, `returns`, `pauses`, `longest_s` and `engine`, as the [node "
        "protocol](node-protocol.md) says. A `refusal` says why there is no answer, and "
        "`is_passing` whether asking again later may help. The same may be asked again when no "
        "answer came. Only the master that leads has the ledger, unless it is kept in Redis; "
        "others answer 503.",
        body=InquiryCall,
        response=Finding,
        example=Example(request=examples.INQUIRY, response=examples.FINDING),
    ),
    Route(
        name="list_hosts",
        method="GET",
        path="/api/v1/hosts",
        roles=READERS,
        scope=Scope.FLEET,
        handler=hosts,
        client='hosts("shop")',
        command="hosts",
        summary="See who visits a host, and what it waits for",
        details="All hosts, registered domains and IP addresses that crawls of the fleet visit "
        "now or lately, in order: `limit` of `total`. `used_by` are the executions that may ask "
        "it now or have requests under way, `waiting` those that wait for their turn; `delay_s` "
        "and `concurrency` are those of the most careful of them. Nobody asks it before "
        "`next_in_s`, and for `paused_for_s` all leave it alone, for the reason in `pause`. 503 "
        "when the fleet has no ledger, or another master has it.",
        query=HostQuery,
        response=HostUses,
        example=Example(response=examples.HOSTS),
    ),
)
