"""The work of an engine and its results. The other side is local (`crawl.engine.committer`) or
remote."""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from crawlfleet.model.crawl.frontier import HostCommit, HostLease, Link
from crawlfleet.model.crawl.notes import Spent
from crawlfleet.model.crawl.parameters import FETCHED
from crawlfleet.ports.sink import PageRecord

MAX_PAUSES: Final = 200
"""Number of recent pauses that are remembered for people who watch."""


class HostMeasure(msgspec.Struct):
    """The cost of requests to a host since the last report."""

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
    """A pause: a host gets no requests for a while."""

    host: str
    seconds: float
    why: str
    until: float = 0.0
    """End of the pause by the wall clock."""


class EngineReport(msgspec.Struct, kw_only=True):
    """One report of an engine."""

    at: float
    hosts: list[HostCommit]
    pages: list[PageRecord] = []
    seeds: list[Link] = []
    """Sitemaps that robots.txt named."""
    measures: dict[str, HostMeasure] = {}
    rejected: dict[str, int] = {}
    """Links that do not belong to the crawl, by rule."""
    pauses: list[Pausing] = []
    widened: list[str] = []
    """Targets of seeds' redirects that the scope alone would not have allowed."""

    def leave_out(self, hosts: Collection[str]) -> None:
        """Remove the results of these hosts."""
        self.hosts = [part for part in self.hosts if part.host not in hosts]
        visited = {visit.id for part in self.hosts for visit in part.visits}
        self.pages = [page for page in self.pages if page.id in visited]


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """Work for an engine."""

    leases: Sequence[HostLease] = ()
    widened: Sequence[str] = ()
    """Scope extensions found by any engine of the crawl, in any of its lives; see
    `EngineReport`."""
    surplus: int = 0
    """Number of hosts to give back: other executions of the crawl have less than their share."""


class WorkQueue(Protocol):
    """The source of an engine's work. Every method may raise `StoreUnavailable`; then nothing was
    changed, or all of it was."""

    async def lease(self, *, hosts: int, urls: int, held: Mapping[str, int], now: float) -> Leased:
        """See `Frontier.lease`."""
        ...

    async def hand_in(self, handed: EngineReport) -> Sequence[str]:
        """Commit a report as one durable step, or as one for each partition. Returns the hosts
        whose leases were lost; nothing of them counts."""
        ...


class WorkFigures:
    """Figures of a crawl since this process began: its speed, and the state of its hosts. The
    totals over all its lives are in the frontier."""

    def __init__(self) -> None:
        self.pages = 0
        self.retries = 0
        self.bytes = 0
        self.requests = 0
        self.rejected: Counter[str] = Counter()
        self.hosts: dict[str, HostMeasure] = {}
        self.pauses: deque[Pausing] = deque(maxlen=MAX_PAUSES)
        """The latest pauses; a caller that shows one to people may remove it."""

    def count(self, handed: EngineReport) -> None:
        """Add a committed report."""
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
        """The cost of the crawl since this process began."""
        return Spent(
            requests=self.requests,
            bytes=self.bytes,
            retries=self.retries,
            rejected=dict(self.rejected),
        )

    def slowest(self, limit: int) -> list[tuple[str, float]]:
        """Return the hosts with the slowest responses, with their mean seconds."""
        means = [(host, m.seconds / m.requests) for host, m in self.hosts.items() if m.requests]
        return sorted(means, key=lambda pair: -pair[1])[:limit]
