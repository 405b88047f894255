"""The URLs of one crawl: seen, waiting, leased, done."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    HostFigures,
    HostLease,
    Link,
    UrlRecord,
)


class UrlRecords(Protocol):
    """A source of the records of a crawl's URLs."""

    async def record(self, id: int) -> UrlRecord | None:
        """Return the record of a URL; `None` when the URL was never added."""
        ...


class Frontier(UrlRecords, Protocol):
    """The queues of one crawl by host: leased in portions, changed by atomic commits.

    Every method may raise `StoreUnavailable`; after `commit` raised, the commit is wholly there or
    wholly absent. A URL is added once, whatever depth it is met at; its depth is the shortest
    known. When that falls after its visit, its links are added anew where that matters, without
    another visit.

    A frontier may be divided into partitions by host; each step concerns one of them. Every method
    of a frontier that several processes share raises `FrontierLost` once the frontier has lost its
    data; a loss never looks like the end of a crawl.
    """

    @property
    def partitions(self) -> int:
        """The number of partitions, known once opened; 1 when the frontier is not divided."""
        ...

    def partition_of(self, host: str) -> int:
        """Return the partition of a host, counted from 0; the same in every process."""
        ...

    async def open(self) -> Mapping[str, Any]:
        """Open the frontier and return the receipts of the last commit, by sink. Leases of an
        earlier life are over, and their URLs wait again; but opening a frontier that several
        processes share ends no leases. May be called again while it is open.
        """
        ...

    async def close(self) -> None:
        """Finish running operations and close. May be called twice."""
        ...

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        """Add seeds at depth 0, durably; returns how many were new. Seeds are always exact."""
        ...

    async def begin_round(self, round: int) -> None:
        """Queue all visited URLs again, with the validators of their visits, durably; changes
        nothing when the round was begun before. The first round needs no beginning; in a later one,
        `counts` are those of that round. Only while nothing is leased.
        """
        ...

    async def lease(
        self,
        worker: str,
        *,
        hosts: int,
        urls: int,
        held: Mapping[str, int],
        now: float,
    ) -> list[HostLease]:
        """Lease up to `urls` URLs of each of up to `hosts` further hosts with URLs to visit now.

        `held` maps hosts that this worker holds to how many more URLs of each it wants; these come
        under the token that the worker has. Within a partition, hosts with the earliest `next_at`
        are leased first, and none before its `next_at`. Where several workers share the frontier,
        none gets more than its share of the hosts that have work, and a worker that is silent for
        too long loses its leases. Returns nothing when there is nothing now; never more than
        `max_pages` allows. A caller that is cancelled may hold leases that it never saw: it should
        call `forget`.
        """
        ...

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        """Commit one durable, atomic step. When the token of some host is not the live one, nothing
        is committed and the names of those hosts are returned: the rest can be committed without
        them.

        All hosts of a commit belong to one partition, or `ValueError` is raised. A receipt replaces
        the last one of its sink, whatever partition that was committed in; each sink belongs to one
        process.

        Ids that are not leased under the token are skipped, so that a commit whose outcome is
        unknown can be repeated.
        """
        ...

    async def forget(self, worker: str) -> None:
        """End all leases of a worker that is gone."""
        ...

    async def counts(self) -> FrontierCounts:
        """Return the committed counts of the crawl, with the figures that executions have noted."""
        ...

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        """Return the hosts with the most waiting URLs."""
        ...
