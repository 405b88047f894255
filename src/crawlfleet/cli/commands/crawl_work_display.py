"""Draws the distribution of a crawl's work as tables."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.output import cell, heading, span, state, table
from crawlfleet.features.crawls.work_views import (
    CrawlWork,
    HostWork,
    KeyWork,
    PartitionWork,
    ShardWork,
)

SHOWN_HOSTS: Final = 10
_WORDS: Final = {
    "closed": "nobody works with it now, or it is on the node",
    "elsewhere": "another master has it; ask the one that leads",
    "away": "there is no ledger, or it does not answer",
}


def draw_work(work: CrawlWork) -> RenderableType:
    """Draw the distribution of a crawl's work."""
    parts: list[RenderableType] = [heading("Shards"), _shards(work.shards), heading("Partitions")]
    parts.append(_partitions(work.partitions) if work.partitions else _why(work.frontier))
    if work.hosts:
        parts += [heading("Hosts"), _hosts(work.hosts[:SHOWN_HOSTS])]
    parts.append(heading("Ledger"))
    parts.append(_keys(work.keys) if work.keys else _why(work.ledger))
    return Group(*parts)


def _why(word: str) -> RenderableType:
    return cell(_WORDS.get(word, word))


def _shards(shards: Sequence[ShardWork]) -> Table:
    return table(
        ("shard", "task", "state", "node", "pages", "rate", "hosts"),
        (
            [
                cell(each.shard),
                cell(each.task_id),
                state(each.state),
                cell(each.node_id),
                cell(each.pages),
                cell(None if each.rate_per_s is None else f"{each.rate_per_s:g}/s"),
                cell(each.hosts),
            ]
            for each in shards
        ),
    )


def _partitions(partitions: Sequence[PartitionWork]) -> Table:
    return table(
        ("partition", "waiting", "under way", "done", "hosts", "held by"),
        (
            [
                cell(each.number),
                cell(each.waiting),
                cell(each.in_flight),
                cell(each.done),
                cell(each.hosts),
                cell(_holders(each)),
            ]
            for each in partitions
        ),
    )


def _holders(partition: PartitionWork) -> str:
    told = [f"{_holder(each.shard, each.execution_id)}: {each.hosts}" for each in partition.holders]
    more = partition.holders_total - len(told)
    return ", ".join([*told, f"and {more} more"] if more > 0 else told)


def _holder(shard: int | None, execution_id: str | None) -> str:
    return execution_id or "" if shard is None else f"shard {shard}"


def _hosts(hosts: Sequence[HostWork]) -> Table:
    return table(
        ("host", "partition", "waiting", "under way", "done", "held by"),
        (
            [
                cell(each.host),
                cell(each.partition),
                cell(each.waiting),
                cell(each.in_flight),
                cell(each.done),
                cell(_holder(each.shard, each.execution_id)),
            ]
            for each in hosts
        ),
        flexible=("host",),
    )


def _keys(keys: Sequence[KeyWork]) -> Table:
    return table(
        (
            "host, domain, address",
            "delay",
            "at once",
            "granted",
            "waiting",
            "visitors",
            "left alone",
        ),
        (
            [
                cell(each.key),
                cell(f"{each.delay_s:g} s"),
                cell(each.concurrency),
                cell(each.granted),
                cell(each.waiting),
                cell(each.visitors_total),
                cell(f"{span(each.paused_for_s)}: {each.pause}" if each.paused_for_s else None),
            ]
            for each in keys
        ),
        flexible=("host, domain, address",),
    )
