"""What a crawl on a node and the master that keeps its frontier say to each other.

Several asks travel together, in msgpack, packed by zstd. All may be said again when the answer got
lost: a lease and a step carry a number that grows, and the master remembers the last of each. A
step's number is committed with it, so that a master that was killed in between knows it, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from crawlfleet.model.crawl.frontier import Commit, FrontierCounts, Link

MOST_ASKED_BYTES: Final = 64_000_000
"""Of what is asked or answered at once, unpacked."""
STEP: Final = "*step@"
"""What the master keeps among the receipts: the number of an execution's last step."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask", tag=str.lower):
    """One call of a frontier. `worker` is a name within the execution that asks."""


class Open(Ask, frozen=True, kw_only=True):
    """Answered by the receipts, by sink."""


class Add(Ask, frozen=True, kw_only=True):
    """Answered by how many were new; after a restart of the master perhaps by fewer."""

    number: int
    seeds: Sequence[Link]
    at: float


class Round(Ask, frozen=True, kw_only=True):
    round: int


class Lease(Ask, frozen=True, kw_only=True):
    worker: str
    number: int
    hosts: int
    urls: int
    held: Mapping[str, int]
    now: float


class Step(Ask, frozen=True, kw_only=True):
    worker: str
    number: int
    commit: Commit


class Forget(Ask, frozen=True, kw_only=True):
    worker: str


class Busiest(Ask, frozen=True, kw_only=True):
    limit: int


class Record(Ask, frozen=True, kw_only=True):
    id: int


class Reclaim(Ask, frozen=True, kw_only=True):
    """A master that was away has forgotten who had what: have it again, host by host. Answered by
    the new token of each host of which all is there to be had."""

    worker: str
    hosts: Mapping[str, Sequence[int]]


class Discard(Ask, frozen=True, kw_only=True):
    """Nothing came of the crawl: whoever works for it next begins anew."""


class Place(Ask, frozen=True, kw_only=True):
    """Where is the frontier? Asked before all else, and alone; answered by `FrontierLocation`."""


class Lost(Ask, frozen=True, kw_only=True):
    """The frontier that this execution was sent to has lost what it knew. Said alone."""

    epoch: str
    why: str


AnyAsk = (
    Open | Add | Round | Lease | Step | Forget | Busiest | Record | Reclaim | Discard | Place | Lost
)


class FrontierLocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the frontier of a crawl is: with the master that tells this, unless it says more."""

    url: str = ""
    """Of the server that has it. It may hold a password, and is for the crawl alone."""
    crawl: str = ""
    """The name of the crawl there."""
    epoch: str = ""
    """Which beginning of it counts."""
    wait: str = ""
    """Why to ask again in a while."""
    refusal: str = ""
    """Why it cannot be had, and what to do."""

    def __repr__(self) -> str:
        return (
            f"FrontierLocation(crawl={self.crawl!r}, wait={self.wait!r}, refusal={self.refusal!r})"
        )


class FrontierRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked at once, to be done in order."""

    asks: Sequence[AnyAsk] = ()
    life: int = 0
    """The life of the frontier in which the leases of the one who asks were given; 0 when there
    are none. In another one nothing is done, and they have to be reclaimed first."""


class FrontierReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answers."""

    life: int
    counts: FrontierCounts
    """After all that was done."""
    step: int = 0
    """The number of the last step of the execution that counts."""
    surplus: int = 0
    """So many hosts the execution should give back: others have less than their share."""
    answers: Sequence[msgspec.Raw] | None = None
    """`None` when nothing was done, since the frontier is in another life."""
