"""/api/v1/hosts: the hosts that crawls visit."""

from typing import Final

import msgspec

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import PageSize
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.features.crawls.ledger import LedgerService
from crawlfleet.features.crawls.views import HostUses


class HostQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    containing: str = ""
    """List only hosts, domains and addresses that contain this text."""
    limit: PageSize = 100
    """Maximum number of entries."""


async def hosts(call: Call) -> HostUses:
    query: HostQuery = call.query
    found = await call.service(LedgerService).hosts(query.containing)
    return HostUses(items=tuple(found[: query.limit]), total=len(found))


ROUTES: Final = (
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
