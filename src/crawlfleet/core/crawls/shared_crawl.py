"""Crawls that several executions share: the crawl's id, the rules of its frontier and each
execution's share of hosts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.wire.output import SINKS, Receipt, Stream

if TYPE_CHECKING:  # a crawl of one process has neither
    from crawlfleet.core.tasks.lease import Lease
    from crawlfleet.model.task import Task


def rules_of(parameters: CrawlParameters) -> FrontierRules:
    """Return the rules of the frontier that the parameters of a crawl demand."""
    return FrontierRules(
        max_depth=parameters.depth,
        max_pages=parameters.limits.max_pages,
        max_per_host=parameters.limits.max_per_host,
        dedup=parameters.dedup,
        dedup_capacity=parameters.dedup_capacity,
    )


def wants_server(parameters: CrawlParameters, *, is_shard: bool, has_server: bool) -> bool:
    """Return whether the frontier of a crawl is on the fleet's Redis server instead of the master:
    if its parameters say so or, by default, if several nodes work on the crawl."""
    if parameters.frontier is None:
        return is_shard and has_server
    return parameters.frontier == "redis"


def crawl_of(task: "Task") -> str:
    """Return the id under which a crawl's output and frontier are stored: the id of the submitted
    task, for its shards too."""
    return task.parent_id or task.id


def at_work(leases: "Mapping[str, Lease]", crawl_id: str) -> set[str]:
    """Return the executions with a lease that work on a crawl."""
    return {id for id, lease in leases.items() if crawl_of(lease.task) == crawl_id}


def counted_in(receipts: Mapping[str, Any]) -> dict[Stream, dict[str, int]]:
    """Return for each stream and execution the last segment that the frontier has committed."""
    counted: dict[Stream, dict[str, int]] = {}
    for name, receipt in receipts.items():
        stream = SINKS.get(name.partition("@")[0])
        if stream is not None:
            runs = counted.setdefault(stream, {})
            for run in msgspec.convert(receipt, Receipt).runs:
                runs[run.execution_id] = max(run.last, runs.get(run.execution_id, 0))
    return counted


class CrawlShare(NamedTuple):
    """Share of the hosts of a crawl that one execution may hold."""

    more: int
    """Number of further hosts that the execution may lease."""
    surplus: int
    """Number of hosts that the execution should return, since others have less than their share."""


def share_of(execution_id: str, held: Mapping[str, int], free: int) -> CrawlShare:
    """Return the share of hosts of one execution of a crawl.

    `held` is the number of hosts of each execution (0 if it has none), and `free` the number of
    hosts without an execution. An execution may hold at most ceil(hosts / executions). One above
    that returns as many as others lack to it beyond `free`; one above floor(hosts / executions)
    does the same for that number. So no host moves to and fro, and a new execution takes hosts
    from all others.
    """
    hosts, workers, mine = sum(held.values()) + free, len(held), held[execution_id]
    most, least = -(-hosts // workers), hosts // workers
    surplus = max(min(mine - part, _lacking(held, part) - free) for part in (most, least))
    return CrawlShare(max(most - mine, 0), max(surplus, 0))


def _lacking(held: Mapping[str, int], part: int) -> int:
    return sum(max(part - each, 0) for each in held.values())
