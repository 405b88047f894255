"""Where an engine gets its work and hands in what came of it: a frontier and sinks, near or far.

Output is staged before the commit that counts it. So whatever is killed in between, the output has
each visited page once: recovery cuts what no commit has counted.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from crawlfleet.model.crawl import FETCHED
from crawlfleet.model.frontier import Commit, HostCommit, HostLease, Link
from crawlfleet.ports.frontier import Frontier
from crawlfleet.ports.sink import PageRecord, Sink


class HostMeasure(msgspec.Struct):
    """What talking to a host cost since the last time that it was told."""

    requests: int = 0
    seconds: float = 0.0
    bytes: int = 0
    failures: int = 0

    def add(self, other: "HostMeasure") -> None:
        self.requests += other.requests
        self.seconds += other.seconds
        self.bytes += other.bytes
        self.failures += other.failures


class Handed(msgspec.Struct, kw_only=True):
    """What an engine hands in at once."""

    at: float
    hosts: list[HostCommit]
    pages: list[PageRecord] = []
    seeds: list[Link] = []
    """What robots.txt named: sitemaps."""
    measures: dict[str, HostMeasure] = {}
    rejected: dict[str, int] = {}
    """Links that do not belong to the crawl, by rule."""


class Desk(Protocol):
    """Every method may raise `StoreUnavailable`; then nothing was changed, or all of it was."""

    async def lease(
        self, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        """See `Frontier.lease`."""
        ...

    async def hand_in(self, handed: Handed) -> Sequence[str]:
        """One durable step; or, when some leases were lost, nothing but the names of the hosts."""
        ...


class Figures:
    """What a crawl has done since this process began, for people who watch."""

    def __init__(self) -> None:
        self.pages = 0
        self.items = 0
        self.retries = 0
        self.bytes = 0
        self.requests = 0
        self.outcomes: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.hosts: dict[str, HostMeasure] = {}

    def count(self, handed: Handed) -> None:
        """Take into account what was committed."""
        for host in handed.hosts:
            for visit in host.visits:
                self.outcomes[visit.outcome] += 1
                self.pages += visit.outcome in FETCHED
            self.retries += len(host.retries)
        self.items += sum(len(page.items) for page in handed.pages)
        self.rejected.update(handed.rejected)
        for host_name, measure in handed.measures.items():
            self.bytes += measure.bytes
            self.requests += measure.requests
            self.hosts.setdefault(host_name, HostMeasure()).add(measure)

    def slowest(self, limit: int) -> list[tuple[str, float]]:
        """The hosts whose answers take longest on average, in seconds."""
        means = [(host, m.seconds / m.requests) for host, m in self.hosts.items() if m.requests]
        return sorted(means, key=lambda pair: -pair[1])[:limit]


class Office:
    """A frontier and sinks of this process, with a desk for each engine."""

    def __init__(self, frontier: Frontier, sinks: Mapping[str, Sink]) -> None:
        self._frontier = frontier
        self._sinks = sinks
        self._one_at_a_time = asyncio.Lock()
        self._settled = True
        """Whether all that was staged was committed."""
        self.figures = Figures()

    async def open_sinks(self, receipts: Mapping[str, Any]) -> None:
        """Let each sink go on after its receipt, or begin."""
        for name, sink in self._sinks.items():
            await sink.open(receipts.get(name))
        if begun := {name: sink for name, sink in self._sinks.items() if name not in receipts}:
            first = {name: await sink.stage([]) for name, sink in begun.items()}
            await self._frontier.commit("local", Commit(hosts=[], receipts=first))

    def desk(self, worker: str) -> "LocalDesk":
        return LocalDesk(self._frontier, self, worker)

    async def take_in(self, worker: str, handed: Handed) -> Sequence[str]:
        """Stage the output, then commit. In turn: a receipt speaks of all that was staged."""
        async with self._one_at_a_time:
            if handed.seeds:
                await self._frontier.add(handed.seeds, handed.at)
            receipts = {}
            if handed.pages:
                await self._take_back()
                self._settled = False
                for name, sink in self._sinks.items():
                    receipts[name] = await sink.stage(handed.pages)
            commit = Commit(hosts=handed.hosts, receipts=receipts)
            refused = await self._frontier.commit(worker, commit)
            if handed.pages and not refused:
                self._settled = True
        if not refused:
            self.figures.count(handed)
        return refused

    async def settle(self) -> None:
        """Leave in the sinks what is committed and nothing else."""
        async with self._one_at_a_time:
            await self._take_back()

    async def _take_back(self) -> None:
        """Remove what was staged and then not committed: the next receipt would count it.

        That is so after leases were lost, and where a commit failed or was broken off; whether it
        came about after all, the frontier knows.
        """
        if not self._settled:
            receipts = await self._frontier.open()
            for name, sink in self._sinks.items():
                await sink.open(receipts.get(name))
            self._settled = True


class LocalDesk:
    """Implements `Desk` in the process that has the frontier."""

    def __init__(self, frontier: Frontier, office: Office, worker: str) -> None:
        self._frontier = frontier
        self._office = office
        self._worker = worker

    async def lease(
        self, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        return await self._frontier.lease(self._worker, hosts=hosts, urls=urls, held=held, now=now)

    async def hand_in(self, handed: Handed) -> Sequence[str]:
        return await self._office.take_in(self._worker, handed)
