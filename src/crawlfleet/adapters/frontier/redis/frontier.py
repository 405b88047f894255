"""The frontier of a crawl on Redis; see `crawlfleet.adapters.frontier.redis`."""

import asyncio
import secrets
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from typing import Any, Final

import msgspec
import xxhash

from crawlfleet.adapters.frontier.redis import counts as counting
from crawlfleet.adapters.frontier.redis import leasing, receipts
from crawlfleet.adapters.frontier.redis import save as saving
from crawlfleet.adapters.frontier.redis.begin import prepare
from crawlfleet.adapters.frontier.redis.checkpoint import CheckpointFile
from crawlfleet.adapters.frontier.redis.connection import Line, split_url
from crawlfleet.adapters.frontier.redis.handover import SentLinks, hand_over, pack_links, taken_in
from crawlfleet.adapters.frontier.redis.partition import BOOKS, FENCE, INTAKE, Partition
from crawlfleet.adapters.frontier.redis.records import (
    DONE,
    SEED,
    host_figures,
    id_bytes,
    id_of,
    id_word,
    link_words,
    read,
    word,
)
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    FrontierRules,
    HostCommit,
    HostFigures,
    HostLease,
    Link,
    PartitionFigures,
    UrlRecord,
    Visit,
)
from crawlfleet.ports.frontier.host import Checkpoint
from crawlfleet.telemetry import Component, logger

log: Final = logger(Component.DEDUP)

LEASE_S: Final = 60.0
"""Seconds of silence after which a worker loses its hosts."""
MAX_PARTITIONS: Final = 256
SEEDS_AT_ONCE: Final = 1000
VISITED_BATCH: Final = 500
HOSTS_BATCH: Final = 100
ROUND: Final = (*BOOKS, "round")
OURS: Final = ("partitions", "lease_s")

_pack: Final = msgspec.msgpack.Encoder().encode


class RedisFrontier:
    """Implements `crawlfleet.ports.frontier.frontier.Frontier` for any number of processes at a
    time.

    `url` is `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, with
    `?partitions=16` for a Redis Cluster's worth of slots (1 by default; only the first to open a
    crawl decides, and `partitions` before the URL) and `?lease_s=60`, after which silent workers
    lose their hosts. `crawl` names the crawl among others there. Who knows that it was begun says
    so, by its `epoch` or without `begin`: then one that is not there any more is not begun anew,
    which nobody could tell from the first beginning; unless `anew` says that nobody was told of
    this `epoch` so far. A crawl that is begun with `journal` writes down its steps until they are
    saved; `versions` are those of its partitions when they were. What is not there as it should be
    raises `FrontierLost`, as every call does when Redis was emptied or has gone back. `open` raises
    `ConfigError` when this Redis may lose what it acknowledges, or the crawl there has other rules.
    """

    def __init__(
        self,
        *,
        url: str,
        crawl: str,
        rules: FrontierRules,
        epoch: str | None = None,
        begin: bool = True,
        anew: bool = False,
        journal: bool = False,
        versions: Sequence[int] = (),
        partitions: int | None = None,
    ) -> None:
        address, ours = split_url(url, OURS)
        if "{" in crawl or "}" in crawl:
            raise ConfigError(f"the crawl {crawl!r} has a brace in its name; Redis hashes by these")
        self._line = Line(address)
        self._crawl = crawl
        self._rules = rules
        count = int(_number(ours.get("partitions", "1"), "partitions", 1, MAX_PARTITIONS))
        self._count = count if partitions is None else partitions
        self._lease_s = _number(ours.get("lease_s", str(LEASE_S)), "lease_s", 0.1, 86_400)
        self._partitions: list[Partition] = []
        self._fresh = epoch if anew else secrets.token_hex(16) if begin and not epoch else ""
        self._journal = journal
        self._versions = versions
        self._writer = secrets.token_hex(8)
        self._steps = 0
        self._round = 1
        self._receipts = receipts.Numbers()
        self._now = 0.0
        self._surplus = 0
        self._told = SentLinks()
        self._deepest: set[int] = set()
        """Ids that were leased at the greatest depth: their links are kept, but lie too deep."""
        self.epoch = epoch
        """Epoch of the crawl's books, new with each beginning; known once opened."""

    @property
    def partitions(self) -> int:
        return len(self._partitions) or self._count

    def partition_of(self, host: str) -> int:
        """Known once it was opened."""
        count = self.partitions
        return xxhash.xxh3_64_intdigest(host.encode()) % count if count > 1 else 0

    async def open(self) -> Mapping[str, Any]:
        was_open = bool(self._partitions)
        known = [one.version for one in self._partitions] or self._versions
        if not was_open:
            await self._line.open()
        try:
            prepared = await prepare(
                self._line,
                self._crawl,
                self._rules,
                partitions=self._count,
                lease_s=self._lease_s,
                epoch=self.epoch,
                fresh=self._fresh if self._fresh and self.epoch in (None, self._fresh) else "",
                journal=self._journal,
            )
        except BaseException:
            if not was_open:
                await self.close()
            raise
        for before, now in zip(known, prepared.partitions, strict=was_open):
            if now.version < before:
                if not was_open:
                    await self.close()
                raise self._line.lost("back")
        if not was_open:
            self._partitions = prepared.partitions
        self.epoch, self._round = prepared.epoch, prepared.round
        self._fresh = ""
        return self._receipts.load(prepared.receipts)

    async def close(self) -> None:
        self._partitions = []
        self._deepest.clear()
        self._told.clear()
        await self._line.close()

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        self._opened()
        new = 0
        by_partition: dict[int, list[Link]] = {}
        for link in seeds:
            by_partition.setdefault(self.partition_of(link.host), []).append(link)
        for number, links in by_partition.items():
            for start in range(0, len(links), SEEDS_AT_ONCE):
                some = links[start : start + SEEDS_AT_ONCE]
                new += await self._seed(self._partitions[number], some, at)
        return new

    async def _seed(self, partition: Partition, links: Sequence[Link], at: float) -> int:
        messages = [
            (partition.number, "S", *link_words(link, partition.number)[:4], at) for link in links
        ]
        new, doubtful = await taken_in(partition, messages)
        if doubtful:
            # The filter may err; whether it does, only the records say.
            unknown = set(doubtful)
            async for id, _ in partition.archived():
                unknown.discard(id)
            both = zip(links, messages, strict=True)
            sure = [message for link, message in both if id_bytes(link.id) in unknown]
            new += (await taken_in(partition, sure, sure=True))[0]
        await hand_over(self._partitions, partition)
        return new

    async def begin_round(self, round: int) -> None:
        for partition in self._opened():
            await _begin_round(partition, round)
        self._round = max(self._round, round)

    async def lease(
        self,
        worker: str,
        *,
        hosts: int,
        urls: int,
        held: Mapping[str, int],
        now: float,
    ) -> list[HostLease]:
        partitions = self._opened()
        self._now = now
        mine: dict[int, list[tuple[str, int]]] = {}
        for host, wanted in held.items():
            if wanted > 0:
                mine.setdefault(self.partition_of(host), []).append((host, wanted))
        wish = leasing.Wish(worker, hosts, urls, mine, now, self._rules.max_pages, self._round)
        leases, self._surplus = await leasing.lease(partitions, wish)
        if (most := self._rules.max_depth) and self._rules.dedup == "exact":
            self._deepest.update(url.id for one in leases for url in one.urls if url.depth == most)
        return leases

    async def discard(self) -> None:
        """Remove the crawl, whatever is there of it, and close. Other processes that have it open
        get `FrontierLost`.
        """
        if not self._partitions:
            await self._line.open()
        # First what everybody is fenced by, in all partitions: what a death in between, or a commit
        # at the same time, leaves of the rest is never taken for a whole crawl.
        prefix = f"crawlfleet:{{{self._crawl}:"
        await self._line.remove(prefix, suffix=f"}}{FENCE}")
        await self._line.remove(prefix)
        await self.close()

    def take_surplus(self) -> int:
        """Return how many hosts the worker that leased last has beyond its share, and should give
        back for others to visit; each surplus is returned once.
        """
        surplus, self._surplus = self._surplus, 0
        return surplus

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        partitions = self._opened()
        numbers = {self.partition_of(part.host) for part in commit.hosts}
        if len(numbers) > 1:
            raise ValueError(f"a commit concerns one partition, not {sorted(numbers)}")
        partition = partitions[numbers.pop() if numbers else 0]
        nonce, receipts = secrets.token_hex(8), self._receipts.next(commit.receipts)
        while True:
            refused, outgoing, warned, to_pack = await partition.ask(
                (*INTAKE, "commit"),
                nonce=nonce,
                worker=worker,
                parts=[self._part(part) for part in commit.hosts],
                receipts=receipts,
                writer=self._writer,
                step=self._steps + 1,
            )
            if not to_pack:
                break
            # Leased by another process, so that it was not known how deep they are.
            self._deepest.update(map(id_of, to_pack))
        self._steps += not refused
        if self._deepest and not refused:
            self._deepest.difference_update(v.id for part in commit.hosts for v in part.visits)
        if warned:
            self._warn(partition)
        if outgoing and not refused:
            pages = {id_bytes(visit.id) for part in commit.hosts for visit in part.visits}
            await hand_over(partitions, partition, self._told, pages)
        return [host.decode() for host in refused]

    async def forget(self, worker: str) -> None:
        await asyncio.gather(*(one.forget(worker) for one in self._opened()))

    async def workers(self) -> Collection[str]:
        """Return all workers that have leased something and were not forgotten."""
        found = await asyncio.gather(*(one.workers() for one in self._opened()))
        return {worker for some in found for worker in some}

    async def save(self, checkpoint: Checkpoint) -> int:
        return await saving.save(self._opened(), checkpoint)

    async def restore(self, checkpoint: Checkpoint) -> None:
        assert isinstance(checkpoint, CheckpointFile), "it knows what the scripts wrote"
        await saving.restore(self._opened(), checkpoint, max_pages=self._rules.max_pages)

    async def counts(self) -> FrontierCounts:
        return await counting.counts(self._opened(), self._now)

    async def shares(self) -> Sequence[PartitionFigures]:
        return await asyncio.gather(*(one.shares() for one in self._opened()))

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        found = await asyncio.gather(*(one.busiest(limit) for one in self._opened()))
        figures = (host_figures(name, packed) for some in found for name, packed in some)
        return nlargest(limit, figures, key=lambda host: host.waiting)

    async def record(self, id: int) -> UrlRecord | None:
        for partition in self._opened():
            await partition.check()
        found = await self._find(id_bytes(id))
        if found is None:
            return None
        partition, record = found
        kept = read(record)
        host = await partition.host(kept.host)
        page = None
        if kept.partition != SEED:
            source = await self._find(kept.page, kept.partition)
            if source is not None:
                there = read(source[1])
                page = there.url(await source[0].host(there.host))
        return kept.shown(id, host, page)

    async def _find(self, id: bytes, number: int | None = None) -> tuple[Partition, bytes] | None:
        some = self._partitions if number is None else [self._partitions[number]]
        for partition in some:
            record = await partition.record(id)
            if record is not None:
                return partition, record
        if self._rules.dedup != "exact":
            for partition in some:
                async for other, record in partition.archived():
                    if other == id:
                        return partition, record
        return None

    def _part(self, part: HostCommit) -> tuple[Any, ...]:
        state = part.state
        return (
            part.host,
            part.token,
            [self._visit(visit) for visit in part.visits],
            [
                (id_word(id), outcome, status, at, due, note)
                for id, outcome, status, at, due, note in part.retries
            ],
            [id_word(id) for id in part.returned],
            False if state is None else word(_pack(state)),
            0.0 if state is None else state.next_at,
            0 if state is None else state.failures,
            part.release,
        )

    def _visit(self, visit: Visit) -> tuple[Any, ...]:
        id, outcome, status, at, links, redirect, counts, validator, note = visit
        return (
            id_word(id),
            outcome,
            status,
            at,
            word(pack_links(link_words(each, self.partition_of(each.host)) for each in links))
            if links and id in self._deepest
            else [self._words(link) for link in links],
            False if redirect is None else self._words(redirect),
            counts,
            False if validator is None else validator,
            note,
        )

    def _words(self, link: Link) -> tuple[Any, ...]:
        words = link_words(link, self.partition_of(link.host))
        told = self._told.depth_of(link.id)
        return words if told is None else (*words, told)

    def _warn(self, partition: Partition) -> None:
        log.warning(
            "dedup filter is nearly full; a further stage of twice its size is added",
            crawl=self._crawl,
            partition=partition.number,
            frontier=self._line.name,
        )

    def _opened(self) -> list[Partition]:
        if not self._partitions:
            raise StoreUnavailable(f"the frontier {self._line.name} is closed; open it first")
        return self._partitions


def _number(text: str, name: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigError(
            f"{name}={text!r} in the URL of the frontier is not a number from {least:g} to {most:g}"
        )
    return value


async def _begin_round(partition: Partition, round: int) -> None:
    """Begin a round in one partition, in which all that was visited waits again; nothing when it
    was begun before.

    That is too much for one script, and for the memory of a worker; so it goes in steps: nothing is
    leased from the first until the last, and a worker that begins again after a crash goes on where
    it ended. What was visited is put in order of discovery on the server, host by host.
    """
    if not (await partition.ask(ROUND, step="begin", round=round))[0]:
        return
    while (await partition.ask(ROUND, step="fetch", round=round))[0]:
        pass
    visited: list[bytes] = []
    async for id, record in partition.records():
        if record[0] == DONE:
            visited.append(id)
        if len(visited) == VISITED_BATCH:
            await _sort(partition, round, visited)
            visited.clear()
    await _sort(partition, round, visited)
    start = 0
    while names := await partition.host_names(start, HOSTS_BATCH):
        while (await partition.ask(ROUND, step="requeue", round=round, hosts=names))[0]:
            pass
        start += len(names)
    await partition.ask(ROUND, step="end", round=round)


async def _sort(partition: Partition, round: int, ids: list[bytes]) -> None:
    await partition.ask(ROUND, step="sort", round=round, ids=[word(id) for id in ids])
