"""Views of a crawl's work: shards, partitions, hosts and ledger keys, made from their figures."""

from collections.abc import Mapping, Sequence

from crawlfleet.features.crawls.work_views import (
    MAX_HOLDERS,
    MAX_VISITORS,
    Holder,
    HostWork,
    KeyWork,
    PartitionWork,
    Visitor,
)
from crawlfleet.model.crawl.frontier import HostFigures, PartitionFigures
from crawlfleet.model.crawl.politeness_entry import LedgerEntry

Shards = Mapping[str, int]
"""Shard number of each execution; empty when the crawl was not split."""
Visitors = Mapping[str, tuple[Visitor, bool]]
"""Visitor of each execution (its crawl or list), and true if the caller may see it."""


def execution_in(name: str) -> str:
    """The execution of a worker or engine: they are named after it."""
    return name.partition("/")[0]


def held_by(partitions: Sequence[PartitionFigures]) -> dict[str, int]:
    """Return the number of hosts that each execution has leased."""
    held: dict[str, int] = {}
    for partition in partitions:
        for worker, hosts in partition.lent.items():
            execution_id = execution_in(worker)
            held[execution_id] = held.get(execution_id, 0) + hosts
    return held


def partition_work(figures: PartitionFigures, shards: Shards) -> PartitionWork:
    """Return the view of a partition, with the executions that hold the most of its hosts."""
    held = held_by([figures])
    ranked = sorted(held.items(), key=lambda pair: (-pair[1], pair[0]))
    return PartitionWork(
        number=figures.number,
        waiting=figures.waiting,
        in_flight=figures.leased,
        done=figures.done,
        hosts=figures.free + sum(held.values()),
        holders=tuple(
            Holder(execution_id=id, hosts=hosts, shard=shards.get(id))
            for id, hosts in ranked[:MAX_HOLDERS]
        ),
        holders_total=len(held),
    )


def host_work(figures: HostFigures, partition: int, shards: Shards) -> HostWork:
    """Return the view of a host, with the execution that has leased it."""
    execution_id = execution_in(figures.worker) or None
    return HostWork(
        host=figures.host,
        partition=partition,
        waiting=figures.waiting,
        in_flight=figures.leased,
        done=figures.done,
        failures=figures.failures,
        execution_id=execution_id,
        shard=shards.get(execution_id or ""),
    )


def visitors(entry: LedgerEntry, now: float) -> set[str]:
    """Return the executions that use a key, or wait for it."""
    names = [user.name for user in entry.users if user.until > now]
    names += [hold.name for hold in entry.holds if hold.lingers_until > now]
    return {execution_in(name) for name in names}


def key_work(key: str, entry: LedgerEntry, now: float, known: Visitors) -> KeyWork:
    """Return the view of a ledger key, with only those visitors that the caller may see."""
    found = {known[id] for id in visitors(entry, now) if id in known}
    shown = sorted((each for each, may_know in found if may_know), key=lambda each: each.task_id)
    holds = [hold for hold in entry.holds if hold.until > now]
    waiting = {execution_in(turn.name) for turn in entry.queue} - {
        execution_in(hold.name) for hold in holds
    }
    return KeyWork(
        key=key,
        delay_s=entry.delay_s,
        concurrency=entry.concurrency,
        granted=sum(hold.permits for hold in holds),
        granted_for_s=max((hold.until - now for hold in holds), default=0.0),
        next_in_s=max(entry.next_at - now, 0.0),
        waiting=len(waiting & visitors(entry, now)),
        paused_for_s=max(entry.paused_until - now, 0.0),
        pause=entry.pause if entry.paused_until > now else "",
        visitors=tuple(shown[:MAX_VISITORS]),
        visitors_total=len(found),
    )


def ranked(keys: Sequence[KeyWork]) -> list[KeyWork]:
    """Return the keys in order of interest: the longest pause first, then the most visitors."""
    return sorted(keys, key=lambda each: (-each.paused_for_s, -each.visitors_total, each.key))
