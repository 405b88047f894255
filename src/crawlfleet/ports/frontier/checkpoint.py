"""What a master keeps of a frontier on another server, to restore it from when that loses it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.frontier_place import FrontierPlace


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
        """Let count what was taken, as far as that makes a state in which the crawl could have
        been: of the steps of one writer none without those before it. `handed` says of each
        partition how many messages to others had been handed over before the first of these
        portions was read: once all steps up to then count, they are not needed any more."""
        ...

    async def receipts(self) -> Mapping[str, Any]:
        """By sink, those that count."""
        ...

    async def record(self, id: int) -> UrlRecord | None:
        """All that is known of a URL."""
        ...
