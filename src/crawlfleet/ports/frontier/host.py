"""The ports of the frontiers that a master is responsible for: in a folder of its own, or on a
server that nodes reach by themselves.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.crawl.frontier import FrontierRules, Holdings, PartitionFigures, UrlRecord
from crawlfleet.model.crawl.frontier_place import FrontierPlace
from crawlfleet.ports.frontier.frontier import Frontier


class Taken(NamedTuple):
    """The position of a checkpoint in one partition."""

    steps: int
    """Number of the partition's steps in this epoch that the checkpoint has."""
    version: int
    """Version of the partition when the checkpoint last read it: versions never go back."""


class Handed(NamedTuple):
    """Number of messages from a partition to others that have arrived there."""

    messages: int
    steps: int
    """Number of steps that the partition had made when the messages were counted."""


class Portion(NamedTuple):
    """Steps of one partition, in order, as the server has recorded them."""

    partition: int
    first: int
    """Number of steps before the first of these."""
    steps: Sequence[bytes]
    version: int
    states: Mapping[str, bytes]
    """Present states of the hosts that these steps concern."""


class Checkpoint(Protocol):
    """A copy of a crawl's frontier in one file, in use by one master at a time.

    Every method may raise `StoreUnavailable`; `open` raises it, too, while another master uses the
    file.
    """

    @property
    def place(self) -> FrontierPlace | None:
        """The server and state of the frontier, known once opened; `None` if unset."""
        ...

    async def open(self) -> None:
        """Open the file. May be called again while it is open."""
        ...

    async def close(self) -> None: ...

    async def put(self, place: FrontierPlace) -> None:
        """Write the frontier's place durably. Under another epoch steps are counted anew."""
        ...

    async def taken(self, partition: int) -> Taken: ...

    async def versions(self) -> Sequence[int]:
        """Return the versions of all partitions; empty when no steps were taken in this epoch."""
        ...

    async def take(self, portion: Portion) -> None:
        """Save these steps durably. They count once `settle` says so; steps that are there already
        change nothing.
        """
        ...

    async def settle(self, handed: Mapping[int, Handed]) -> None:
        """Mark saved steps as valid up to a consistent point: a step counts only if all earlier
        steps of the same writer count. `handed[p]` is how many messages of partition `p` to other
        partitions had arrived before the first of these portions was read; once every step up to
        that point counts, those messages can be dropped."""
        ...

    async def receipts(self) -> Mapping[str, Any]:
        """Return the receipts that count, by sink."""
        ...

    async def record(self, id: int) -> UrlRecord | None:
        """Return the record of a URL, or `None`."""
        ...


class ObservableFrontier(Frontier, Protocol):
    """A frontier that also shows which workers hold which hosts, for people."""

    async def shares(self) -> Sequence[PartitionFigures]:
        """Return the figures of each partition, in order, with the workers that hold hosts."""
        ...


class ReclaimableFrontier(ObservableFrontier, Protocol):
    """A frontier whose leases end with the process that gave them, but can be reclaimed."""

    @property
    def life(self) -> int:
        """A number that grows each time that the frontier is opened; 0 while it is closed."""
        ...

    async def reclaim(self, worker: str, host: str, ids: Sequence[int]) -> int | None:
        """Lease these URLs of a host again, which an earlier life of the frontier had leased;
        returns the new token. Returns `None` and changes nothing when another worker holds the
        host, or one of the URLs does not wait any more. May be called again.
        """
        ...

    async def holdings(self) -> Holdings: ...


class FrontierFolders(Protocol):
    """Stores one frontier for each crawl, each in use by one master at a time.

    Methods that touch the disk may raise `StoreUnavailable`; `open` of a frontier raises it, too,
    while another master uses it.
    """

    def frontier(self, task_id: str, rules: FrontierRules) -> ReclaimableFrontier:
        """Return the frontier of a crawl, to be opened; it may be new."""
        ...

    async def has(self, task_id: str) -> bool: ...

    def checkpoint(self, task_id: str) -> Checkpoint:
        """Return the checkpoint of a crawl whose frontier is on another server, to be opened."""
        ...

    async def has_checkpoint(self, task_id: str) -> bool: ...

    async def tasks(self) -> Sequence[str]:
        """Return the ids of all crawls that have a frontier or a checkpoint here."""
        ...

    async def remove(self, task_id: str) -> None:
        """Remove a crawl's files; not while they are open. May be called twice."""
        ...


class RemoteFrontier(ObservableFrontier, Protocol):
    """The frontier of one crawl on a server, for the master that is responsible for it.

    Every method raises `FrontierLost` when the server has lost the crawl or a part of it, and
    `ConfigError` when the server would not keep its data.
    """

    async def workers(self) -> Collection[str]:
        """Return the workers that the frontier knows: those that may have leases."""
        ...

    async def save(self, checkpoint: Checkpoint) -> int:
        """Copy all steps since the last call to the checkpoint, in portions; returns how many."""
        ...

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Fill a frontier that was just begun from a checkpoint."""
        ...

    async def discard(self) -> None:
        """Remove the crawl, and close. Other processes that have it open get `FrontierLost`."""
        ...


class FrontierServer(Protocol):
    """A server that keeps frontiers, which nodes reach by themselves."""

    @property
    def url(self) -> str:
        """URL by which workers of a crawl reach the server, with its password."""
        ...

    @property
    def name(self) -> str:
        """URL of the server without secrets, for messages."""
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
        """Return the frontier of a crawl, to be opened: one that was begun under this epoch, or
        with `anew` a new one if there is none, with so many `partitions`, or as many as the
        server's URL says. It also counts as lost if a partition is behind its version in
        `versions`.
        """
        ...
