"""Leases: hosts of several partitions for one worker among others, and its part of `max_pages`."""

import asyncio
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

import msgspec
import xxhash

from crawlfleet.adapters.frontier.redis.partition import BOOKS, Partition
from crawlfleet.adapters.frontier.redis.records import waiting
from crawlfleet.model.crawl.frontier import HostLease, HostState

ALLOW: Final = (*BOOKS, "allow")
_state: Final = msgspec.msgpack.Decoder(HostState).decode


class Wish(NamedTuple):
    """The request of a worker for leases."""

    worker: str
    hosts: int
    urls: int
    held: Mapping[int, Sequence[tuple[str, int]]]
    """Hosts that the worker has, and how many more URLs of each it wants, by partition."""
    now: float
    max_pages: int | None
    round: int


async def lease(partitions: Sequence[Partition], wish: Wish) -> tuple[list[HostLease], int]:
    """Lease what there is to a worker, but not more hosts than its share; also returns how many
    hosts it has beyond that.
    """
    worker, hosts, urls, held, now, max_pages, _ = wish
    if len(partitions) == 1:
        given, surplus = await partitions[0].lease(worker, hosts, urls, held.get(0, ()), now)
        return _read(given), surplus
    looks = await asyncio.gather(*(one.look(worker, now) for one in partitions))
    workers = max(look.workers for look in looks)
    share = ceil(sum(look.hosts for look in looks) / workers)
    more = share - sum(look.mine for look in looks)
    hosts = min(hosts, more)
    leases: list[HostLease] = []
    for partition in preferred(partitions, worker):
        look = looks[partition.number]
        topped = held.get(partition.number, ())
        most = max(0, min(hosts, look.ready))
        if not topped and not most:
            continue
        if max_pages is not None:
            wanted = most * urls + sum(more for _, more in topped) - look.room
            if wanted > 0:
                await _ask_for_pages(partitions, partition, wanted, wish.round)
        some = _read((await partition.lease(worker, most, urls, topped, now))[0])
        hosts -= sum(one.state is not None for one in some)
        leases += some
    return leases, max(0, -more)


def preferred(partitions: Sequence[Partition], worker: str) -> list[Partition]:
    """All partitions, those first that a worker should look at before the others do: as many for
    each worker, and when one comes or goes few change."""
    return sorted(
        partitions,
        key=lambda one: xxhash.xxh3_64_intdigest(f"{one.number}/{worker}".encode()),
        reverse=True,
    )


def _read(given: Sequence[Any]) -> list[HostLease]:
    leases = []
    for name, token, state, urls in given:
        host = name.decode()
        leases.append(
            HostLease(
                host=host,
                token=int(token),
                urls=[waiting(host, one) for one in urls],
                state=None if state is None else _state(state) if state else HostState(),
            )
        )
    return leases


async def _ask_for_pages(
    partitions: Sequence[Partition], partition: Partition, more: int, round: int
) -> None:
    """Let a partition have so many pages more, or as many as there are.

    The first partition grants pages of `max_pages` to the others, in totals that only grow; a
    partition leases no more than it was granted, and gives back what it does not need when another
    runs short. A worker that dies in between leaves fewer pages granted than could be, never more;
    the next worker that runs short sets it right.
    """
    left = more - await _grant(partitions[0], partition, more, round)
    if left <= 0:
        return
    for other in partitions:
        if other is not partition:
            await _grant(partitions[0], other, 0, round)
            await other.ask(ALLOW, step="give back", round=round)
    for other in partitions:
        if other is not partition:
            await _grant(partitions[0], other, 0, round)
    await _grant(partitions[0], partition, left, round)


async def _grant(first: Partition, partition: Partition, more: int, round: int) -> int:
    """Grant pages to a partition, after counting those that it gives back; returns how many."""
    _, back = await partition.ask(ALLOW, step="hear", round=round)
    given, granted = await first.ask(
        ALLOW, step="grant", round=round, for_=partition.number, back=int(back), more=more
    )
    await partition.ask(ALLOW, step="accept", round=round, given=int(given))
    return int(granted)
