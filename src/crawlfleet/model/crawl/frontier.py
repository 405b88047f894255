"""What is said between a crawl's engine and its frontier.

Tuples where there are many of them: a page has dozens of links. The id of a URL is the signed
64-bit fingerprint of its canonical form; it is the same in every process and on every backend.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.model.crawl.notes import NoteTotals
from crawlfleet.model.crawl.parameters import Outcome

PART: Final = "#"
"""Between a host key and the number of one of its parts, in the name of a queue."""


class Link(NamedTuple):
    """A canonical URL that belongs to the crawl."""

    id: int
    url: str
    host: str
    """The queue that it waits in: its host key (`https://shop.example`), or a part of that where
    the crawl splits hosts (`https://shop.example#3`). Of a frontier's methods, `host` is this."""
    priority: int = 0
    """Higher goes first within a host; equal ones in order of discovery. From -128 to 127; what
    lies beyond is cut to that."""


class WaitingUrl(NamedTuple):
    """A URL that was leased to be visited."""

    id: int
    url: str
    depth: int
    attempt: int
    """1 the first time."""
    hops: int
    """Redirects that led here one after another."""
    validator: str | None = None
    """What an earlier visit left for a conditional request."""


class HostState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must move with a host when somebody else takes it over. Instants are wall clock."""

    next_at: float = 0.0
    """No request before then."""
    delay_s: float = 0.0
    failures: int = 0
    """In a row."""
    robots: bytes | None = None
    """The text of robots.txt, cut to the limit; `None` when not fetched yet."""
    robots_status: int = 0
    robots_until: float = 0.0
    robots_failed_at: float = 0.0
    """Since when it cannot be had; 0 when it could the last time."""
    cookies: str = ""
    """As `crawl.fetch.cookies` writes them."""


class HostLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to visit URLs of one host, until the lease is released or lost."""

    host: str
    token: int
    """Grows with each lease of the host; a commit with an older one is refused."""
    urls: Sequence[WaitingUrl]
    state: HostState | None = None
    """Only with the first portion of a lease."""


class Visit(NamedTuple):
    """A URL that is finished with; the end of its life unless its depth falls later."""

    id: int
    outcome: Outcome
    status: int
    at: float
    links: Sequence[Link] = ()
    """All that belong to the crawl, from a page at the greatest depth too: it may have come nearer
    since it was leased, or come nearer later."""
    redirect: Link | None = None
    """Where it led; goes on at the same depth, with one hop more."""
    counts: bool = True
    """Whether it is a page towards `max_pages`."""
    validator: str | None = None
    note: str = ""
    """What `explain` should say about it."""


class UrlRetry(NamedTuple):
    """A URL to be visited again; not before `due`."""

    id: int
    outcome: Outcome
    status: int
    at: float
    due: float
    note: str = ""


class HostCommit(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to the URLs of one lease."""

    host: str
    token: int
    visits: Sequence[Visit] = ()
    retries: Sequence[UrlRetry] = ()
    returned: Sequence[int] = ()
    """Ids that were not visited after all: they wait again as if never leased."""
    state: HostState | None = None
    release: bool = False
    """The lease ends with this; what was leased and not spoken of waits again."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic step of a crawl."""

    hosts: Sequence[HostCommit]
    receipts: Mapping[str, Any] = {}
    """By sink: what it answered to `stage`; replaces that sink's receipt. JSON values."""


class FrontierRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the frontier itself must hold to.

    `max_depth` and `dedup` stay what they were when a crawl goes on in a later life.
    """

    max_depth: int | None = None
    max_pages: int | None = None
    max_per_host: int | None = None
    """URLs of a host that are taken in; further ones are counted and dropped, unless they are
    seeds."""
    dedup: str = "exact"
    """`exact`, or `bloom`: then a URL's depth is the one that it was first met at."""
    dedup_capacity: int = 1_000_000


class FrontierCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Where all known URLs are."""

    known: int
    waiting: int
    """Including those whose retry time has not come."""
    leased: int
    done: int
    """Finished with, whatever the outcome."""
    pages: int
    """Those that count towards `max_pages`."""
    dropped: int = 0
    """Links that `max_per_host` kept out, each time that they were met, and URLs that are expected
    to be lost to a Bloom filter's error."""
    outcomes: Mapping[str, int] = {}
    depths: Mapping[int, int] = {}
    totals: NoteTotals | None = None
    """What the notes among the receipts come to (`model.crawl.notes`), as of the same step; `None`
    from one that was written before there were any."""
    next_due: float | None = None
    """When the first of those comes whose time had not come at the last lease: a retry, or a host
    by its `next_at`. `None` when nothing waits for its time."""

    @property
    def outstanding(self) -> int:
        """What is left to do; 0 means that the crawl is finished. It may also be finished with
        some left, when as many pages are done as `max_pages` allows."""
        return self.waiting + self.leased


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """How the hosts that have something to visit are shared among workers."""

    free: int
    """Those that nobody has; also where nothing may be asked for yet."""
    lent: Mapping[str, int]
    """By worker."""


class HostFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One host in the frontier's books."""

    host: str
    waiting: int
    leased: int
    done: int
    failures: int
    next_at: float
    worker: str = ""
    """Who has leased it."""


class PartitionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a frontier, and who has hosts of it."""

    number: int
    waiting: int
    leased: int
    done: int
    free: int
    """Hosts with something to visit that nobody has; also where nothing may be asked for yet."""
    lent: Mapping[str, int]
    """Leased hosts, by worker."""


class UrlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that a frontier knows of one URL."""

    id: int
    url: str
    host: str
    status: str
    """`waiting`, `leased` or `done`."""
    depth: int
    attempts: int
    """Visits that have ended."""
    found_on: str | None = None
    """The URL whose page (or redirect) it was first found on; `None` for a seed."""
    found_at: float | None = None
    due: float | None = None
    outcome: str | None = None
    http_status: int = 0
    at: float | None = None
    note: str = ""
