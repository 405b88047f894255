"""What all who work for one crawl have in common: its id, and the rules of its frontier."""

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
    """What a crawl demands of its frontier."""
    return FrontierRules(
        max_depth=parameters.depth,
        max_pages=parameters.limits.max_pages,
        max_per_host=parameters.limits.max_per_host,
        dedup=parameters.dedup,
        dedup_capacity=parameters.dedup_capacity,
    )


def wants_server(parameters: CrawlParameters, *, is_shard: bool, has_server: bool) -> bool:
    """Whether a crawl keeps its frontier on the fleet's server rather than with the master: when
    it says so, and by itself when several nodes work for it."""
    if parameters.frontier is None:
        return is_shard and has_server
    return parameters.frontier == "redis"


def crawl_of(task: "Task") -> str:
    """The id under which the output and the frontier of a crawl are kept: that of the task that
    was submitted, also for those that it was split into."""
    return task.parent_id or task.id


def at_work(leases: "Mapping[str, Lease]", crawl_id: str) -> set[str]:
    """The executions that work for a crawl, of those that have a lease."""
    return {id for id, lease in leases.items() if crawl_of(lease.task) == crawl_id}


def counted_in(receipts: Mapping[str, Any]) -> dict[Stream, dict[str, int]]:
    """Through which segment the run of each execution counts, by what a frontier has committed."""
    counted: dict[Stream, dict[str, int]] = {}
    for name, receipt in receipts.items():
        stream = SINKS.get(name.partition("@")[0])
        if stream is not None:
            runs = counted.setdefault(stream, {})
            for run in msgspec.convert(receipt, Receipt).runs:
                runs[run.execution_id] = max(run.last, runs.get(run.execution_id, 0))
    return counted


class CrawlShare(NamedTuple):
    """How many hosts an execution may have."""

    more: int
    """So many it may lease."""
    surplus: int
    """So many it should give back, since others have less than their share."""


def share_of(execution_id: str, held: Mapping[str, int], free: int) -> CrawlShare:
    """What is due to one of those that work for a crawl.

    `held` says how many hosts each of them has, 0 for one that has none, and `free` how many
    nobody has. Nobody gets more than its part, rounded up. Who has more gives back what others
    lack to that; and what they lack to their part, rounded down, also who has just a little more.
    So nothing moves to and fro, and when one more comes each of the others gives of its own.
    """
    hosts, workers, mine = sum(held.values()) + free, len(held), held[execution_id]
    most, least = -(-hosts // workers), hosts // workers
    surplus = max(min(mine - part, _lacking(held, part) - free) for part in (most, least))
    return CrawlShare(max(most - mine, 0), max(surplus, 0))


def _lacking(held: Mapping[str, int], part: int) -> int:
    return sum(max(part - each, 0) for each in held.values())
