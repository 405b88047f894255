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
    """Whoever can tell of the URLs of a crawl."""

    async def record(self, id: int) -> UrlRecord | None:
        """All that is known of a URL; `None` when it was never taken in."""
        ...


class Frontier(UrlRecords, Protocol):
    """Queues by host, leased in portions, changed by atomic commits.

    Every method may raise `StoreUnavailable`; after `commit` raised, it is wholly there or
    wholly absent. A URL is taken in once, whatever depth it is met at; its depth is the shortest
    known, and when that falls after its visit, what it links to is taken in anew where that
    matters, without visiting it again.

    A frontier may be divided into partitions by host; each step concerns one of them. One that is
    shared by several processes raises `FrontierLost` once it has lost what it knew, whatever is
    asked; it never takes that for the end of a crawl.
    """

    @property
    def partitions(self) -> int:
        """How many there are, known once it was opened; 1 when it is not divided."""
        ...

    def partition_of(self, host: str) -> int:
        """From 0; the same in every process."""
        ...

    async def open(self) -> Mapping[str, Any]:
        """Make ready; the receipts of the last commit, by sink. Leases of an earlier life are
        over: what they held waits again; but opening one that several processes share ends
        nobody's. May be called again while it is open."""
        ...

    async def close(self) -> None:
        """Finish what was begun. May be called twice."""
        ...

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        """Take in seeds at depth 0, durably; how many were new. Seeds are always exact."""
        ...

    async def begin_round(self, round: int) -> None:
        """Let everything that was visited wait again, with the validator that its visit left,
        durably; nothing when the round was begun before. The first round needs no beginning; of
        a later one, `counts` speak of that round. Only while nothing is leased."""
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
        """Up to `urls` URLs of each of up to `hosts` further hosts that have any to visit now.

        `held` names hosts that this worker has, and how many more URLs of each it wants; they
        come under the token that it has. Of a partition, hosts whose `next_at` comes first are
        given first, and none before its `next_at`. Where several workers share the frontier, none
        gets more than its share of the hosts that have work, and one that is not heard of in time
        has lost its leases. Empty when there is nothing now; never more than `max_pages`
        allows. A caller that is cancelled may have been given something that it never saw: it
        should have itself forgotten.
        """
        ...

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        """One durable, atomic step; or, when the token of some host is not the living one, no
        step at all, and the names of those hosts: the rest can be committed without them.

        All hosts of a commit belong to one partition, or `ValueError` is raised. A receipt replaces
        the last one of its sink, whatever partition that was committed in; each sink belongs to
        one process.

        Ids that are not leased under the token are passed over, so that a commit whose outcome is
        unknown can be made again.
        """
        ...

    async def forget(self, worker: str) -> None:
        """The worker is gone: its leases are over."""
        ...

    async def counts(self) -> FrontierCounts:
        """How far the crawl has come, as was committed; of what executions have noted, too."""
        ...

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        """The hosts with the most waiting URLs."""
        ...
