"""Where an engine gets its work and hands in what came of it; near (`crawl.engine.committer`) or
far."""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from crawlfleet.model.crawl.frontier import HostCommit, HostLease, Link
from crawlfleet.model.crawl.notes import Spent
from crawlfleet.model.crawl.parameters import FETCHED
from crawlfleet.ports.sink import PageRecord

MOST_PAUSES: Final = 200
"""So many of the last ones are remembered for people who watch."""


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


class Pausing(NamedTuple):
    """A host is left alone for a while."""

    host: str
    seconds: float
    why: str
    until: float = 0.0
    """By the wall clock."""


class EngineReport(msgspec.Struct, kw_only=True):
    """What an engine hands in at once."""

    at: float
    hosts: list[HostCommit]
    pages: list[PageRecord] = []
    seeds: list[Link] = []
    """What robots.txt named: sitemaps."""
    measures: dict[str, HostMeasure] = {}
    rejected: dict[str, int] = {}
    """Links that do not belong to the crawl, by rule."""
    pauses: list[Pausing] = []
    widened: list[str] = []
    """Where redirects of seeds led that the scope alone would not have allowed."""

    def leave_out(self, hosts: Collection[str]) -> None:
        """Without what came of these hosts."""
        self.hosts = [part for part in self.hosts if part.host not in hosts]
        visited = {visit.id for part in self.hosts for visit in part.visits}
        self.pages = [page for page in self.pages if page.id in visited]


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine gets to do."""

    leases: Sequence[HostLease] = ()
    widened: Sequence[str] = ()
    """All that any engine of the crawl found, in any of its lives; see `EngineReport`."""
    surplus: int = 0
    """So many hosts to give back: others work for the crawl, and have less than their share."""


class WorkQueue(Protocol):
    """Every method may raise `StoreUnavailable`; then nothing was changed, or all of it was."""

    async def lease(self, *, hosts: int, urls: int, held: Mapping[str, int], now: float) -> Leased:
        """See `Frontier.lease`."""
        ...

    async def hand_in(self, handed: EngineReport) -> Sequence[str]:
        """A durable step, or one for each partition that it concerns; the names of hosts whose
        leases were lost, of which nothing counts."""
        ...


class WorkFigures:
    """What a crawl has done since this process began: how fast it is, and how its hosts are. What
    it has come to over all its lives is in the frontier."""

    def __init__(self) -> None:
        self.pages = 0
        self.retries = 0
        self.bytes = 0
        self.requests = 0
        self.rejected: Counter[str] = Counter()
        self.hosts: dict[str, HostMeasure] = {}
        self.pauses: deque[Pausing] = deque(maxlen=MOST_PAUSES)
        """The last ones; whoever tells people of one may take it out."""

    def count(self, handed: EngineReport) -> None:
        """Take into account what was committed."""
        for host in handed.hosts:
            for visit in host.visits:
                self.pages += visit.outcome in FETCHED
            self.retries += len(host.retries)
        self.rejected.update(handed.rejected)
        self.pauses.extend(handed.pauses)
        for host_name, measure in handed.measures.items():
            self.bytes += measure.bytes
            self.requests += measure.requests
            self.hosts.setdefault(host_name, HostMeasure()).add(measure)

    @property
    def spent(self) -> Spent:
        """What it took."""
        return Spent(
            requests=self.requests,
            bytes=self.bytes,
            retries=self.retries,
            rejected=dict(self.rejected),
        )

    def slowest(self, limit: int) -> list[tuple[str, float]]:
        """The hosts whose answers take longest on average, in seconds."""
        means = [(host, m.seconds / m.requests) for host, m in self.hosts.items() if m.requests]
        return sorted(means, key=lambda pair: -pair[1])[:limit]
