"""Where a master keeps the frontiers of crawls that run on its nodes."""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.crawl.frontier import FrontierRules, Holdings, PartitionFigures
from crawlfleet.ports.frontier.checkpoint import Checkpoint
from crawlfleet.ports.frontier.frontier import Frontier


class ToldFrontier(Frontier, Protocol):
    """A frontier that can tell who does what, for people."""

    async def shares(self) -> Sequence[PartitionFigures]:
        """Each partition, in order, with those who have leased hosts of it."""
        ...


class KeptFrontier(ToldFrontier, Protocol):
    """A frontier whose leases end with the process that gave them, but can be had again."""

    @property
    def life(self) -> int:
        """Grows each time that it is opened; 0 while it is closed."""
        ...

    async def reclaim(self, worker: str, host: str, ids: Sequence[int]) -> int | None:
        """Lease these very URLs of a host again, those of an earlier life; the new token. `None`
        and nothing done when the host is another's, or one of them does not wait any more. May be
        called again."""
        ...

    async def holdings(self) -> Holdings: ...


class FrontierShelf(Protocol):
    """One frontier for each crawl, each in use by one master at a time.

    What touches the disk may raise `StoreUnavailable`; `open` of a frontier raises it, too, while
    another master has it.
    """

    def frontier(self, task_id: str, rules: FrontierRules) -> KeptFrontier:
        """That of a crawl, to be opened; there may be nothing of it yet."""
        ...

    async def has(self, task_id: str) -> bool: ...

    def checkpoint(self, task_id: str) -> Checkpoint:
        """That of a crawl whose frontier is on another server, to be opened."""
        ...

    async def has_checkpoint(self, task_id: str) -> bool: ...

    async def tasks(self) -> Sequence[str]:
        """The ids of all crawls that have one."""
        ...

    async def remove(self, task_id: str) -> None:
        """Forget it; not while anybody has it open. May be called twice."""
        ...
