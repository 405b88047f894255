"""Messages between a crawl on a node and the master that keeps its frontier.

Several calls travel together, in msgpack, compressed by zstd. Each may be sent again when its
answer got lost: a lease and a step have an increasing number, and the master remembers the last of
each. The number of a step is committed with it, so that a master that was killed in between knows
it, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from crawlfleet.model.crawl.frontier import Commit, FrontierCounts, Link

MAX_ASKED_BYTES: Final = 64_000_000
"""Maximum size of a request or reply, uncompressed."""
STEP: Final = "*step@"
"""Prefix of receipts in which the master keeps the number of an execution's last step."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag_field="ask", tag=str.lower):
    """One call of a frontier. `worker` is a name within the calling execution."""


class Open(Ask, frozen=True, kw_only=True):
    """Open the frontier; the answer has the receipts by sink."""


class Add(Ask, frozen=True, kw_only=True):
    """Add seeds; the answer is the number of new ones, after a restart of the master perhaps
    fewer."""

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
    """Reclaim leases after a restart of the master, host by host; the answer has the new token of
    each host that could be leased again completely."""

    worker: str
    hosts: Mapping[str, Sequence[int]]


class Discard(Ask, frozen=True, kw_only=True):
    """Discard the crawl's progress: the next execution starts from the beginning."""


class Place(Ask, frozen=True, kw_only=True):
    """Ask for the location of the frontier; sent first and alone. The answer is a
    `FrontierLocation`."""


class Lost(Ask, frozen=True, kw_only=True):
    """Report that the frontier at the given location has lost data; sent alone."""

    epoch: str
    why: str


AnyAsk = (
    Open | Add | Round | Lease | Step | Forget | Busiest | Record | Reclaim | Discard | Place | Lost
)


class FrontierLocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Location of a crawl's frontier: the master that answers, unless `url` is set."""

    url: str = ""
    """Address of the server with the frontier. It may contain a password and is only for the
    crawl."""
    crawl: str = ""
    """Name of the crawl on that server."""
    epoch: str = ""
    """Valid epoch of the frontier there."""
    wait: str = ""
    """Reason to ask again after a while."""
    refusal: str = ""
    """Reason why the frontier cannot be used, and what to do."""

    def __repr__(self) -> str:
        return (
            f"FrontierLocation(crawl={self.crawl!r}, wait={self.wait!r}, refusal={self.refusal!r})"
        )


class FrontierRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls to carry out in order."""

    asks: Sequence[AnyAsk] = ()
    life: int = 0
    """Life of the frontier in which the caller's leases were given; 0 when it has none. In another
    life no call is carried out, and the leases have to be reclaimed first."""


class FrontierReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answers to the calls of a request."""

    life: int
    counts: FrontierCounts
    """Counts after all calls."""
    step: int = 0
    """Number of the execution's last committed step."""
    surplus: int = 0
    """Number of hosts that the execution should give back, because others have less than their
    share."""
    answers: Sequence[msgspec.Raw] | None = None
    """Answers by call; `None` when no call was carried out, since the frontier is in another
    life."""
