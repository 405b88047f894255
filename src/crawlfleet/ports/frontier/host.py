"""What a master needs of the frontiers that it answers for: in a folder of its own, or on a server
that nodes reach by themselves."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.crawl.frontier import FrontierRules, Holdings, PartitionFigures, UrlRecord
from crawlfleet.model.crawl.frontier_place import FrontierPlace
from crawlfleet.ports.frontier.frontier import Frontier


class Taken(NamedTuple):
    """How far a checkpoint has got with one partition."""

    steps: int
    """So many of its steps it has, of this epoch."""
    version: int
    """The books had this version when it last looked: they never go back."""


class Handed(NamedTuple):
    """Messages of a partition to others that have reached them."""

    messages: int
    steps: int
    """So many steps the partition had made by then."""


class Portion(NamedTuple):
    """Steps of one partition, in order, as the server wrote them down."""

    partition: int
    first: int
    """The number of steps before these."""
    steps: Sequence[bytes]
    version: int
    states: Mapping[str, bytes]
    """Of hosts that these concern, as they are now."""


class Checkpoint(Protocol):
    """One file for each crawl, in use by one master at a time.

    Every method may raise `StoreUnavailable`; `open` raises it, too, while another master has it.
    """

    @property
    def place(self) -> FrontierPlace | None:
        """Where the frontier is, and how it stands; known once it was opened."""
        ...

    async def open(self) -> None:
        """May be called again while it is open."""
        ...

    async def close(self) -> None: ...

    async def put(self, place: FrontierPlace) -> None:
        """Write down durably how it stands. Under another epoch steps are counted anew."""
        ...

    async def taken(self, partition: int) -> Taken: ...

    async def versions(self) -> Sequence[int]:
        """Of all partitions; empty when nothing was taken in this epoch."""
        ...

    async def take(self, portion: Portion) -> None:
        """Have these steps durably. They count when `settle` says so; what it has already changes
        nothing."""
        ...

    async def settle(self, handed: Mapping[int, Handed]) -> None:
        """Mark saved steps as valid up to a consistent point: a step counts only if all earlier
        steps of the same writer count. `handed[p]` is how many messages of partition `p` to other
        partitions had arrived before the first of these portions was read; once every step up to
        that point counts, those messages can be dropped."""
        ...

    async def receipts(self) -> Mapping[str, Any]:
        """By sink, those that count."""
        ...

    async def record(self, id: int) -> UrlRecord | None:
        """All that is known of a URL."""
        ...


class ObservableFrontier(Frontier, Protocol):
    """A frontier that can tell who does what, for people."""

    async def shares(self) -> Sequence[PartitionFigures]:
        """Each partition, in order, with those who have leased hosts of it."""
        ...


class ReclaimableFrontier(ObservableFrontier, Protocol):
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


class FrontierFolders(Protocol):
    """One frontier for each crawl, each in use by one master at a time.

    What touches the disk may raise `StoreUnavailable`; `open` of a frontier raises it, too, while
    another master has it.
    """

    def frontier(self, task_id: str, rules: FrontierRules) -> ReclaimableFrontier:
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


class RemoteFrontier(ObservableFrontier, Protocol):
    """The frontier of one crawl there, as the one sees it who answers for it.

    Whatever is asked raises `FrontierLost` when the server has lost the crawl or a part of it, and
    `ConfigError` when it would not keep what it is given.
    """

    async def workers(self) -> Collection[str]:
        """Whom it knows: those who may have leases."""
        ...

    async def save(self, checkpoint: Checkpoint) -> int:
        """Let the checkpoint have all that was committed since the last time, in portions; how
        many steps that were."""
        ...

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Fill a frontier that was just begun with what a checkpoint has."""
        ...

    async def discard(self) -> None:
        """Remove the crawl, and close. Others who have it open are told that it is lost."""
        ...


class FrontierServer(Protocol):
    """Where frontiers are."""

    @property
    def url(self) -> str:
        """What those who work for a crawl must know to reach it, with its password."""
        ...

    @property
    def name(self) -> str:
        """The same as it may be told to anybody."""
        ...

    def frontier(
        self,
        crawl: str,
        rules: FrontierRules,
        *,
        epoch: str,
        anew: bool = False,
        versions: Sequence[int] = (),
        partitions: int | None = None,
    ) -> RemoteFrontier:
        """That of a crawl, to be opened: begun under this epoch before, or `anew` if it is not
        there yet, then with so many `partitions`, or as many as the server's URL says. It is
        lost, too, if a partition has not come as far as `versions` says."""
        ...
