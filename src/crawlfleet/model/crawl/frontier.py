"""Values that a crawl's engine and its frontier exchange.

Tuples where there are many of them: a page has dozens of links. The id of a URL is the signed
64-bit fingerprint of its canonical form; it is the same in every process and on every backend.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.model.crawl.notes import NoteTotals
from crawlfleet.model.crawl.parameters import Outcome

PART: Final = "#"
"""Separator between a host key and the number of a part, in the name of a queue."""


class Link(NamedTuple):
    """A canonical URL that belongs to the crawl."""

    id: int
    url: str
    host: str
    """Queue of the URL: its host key (`https://shop.example`), or a part of it where the crawl
    splits hosts (`https://shop.example#3`). The methods of a frontier mean this by `host`."""
    priority: int = 0
    """Priority within a host, highest first; equal ones in order of discovery. Clipped to -128 to
    127."""


class WaitingUrl(NamedTuple):
    """A URL that was leased to be visited."""

    id: int
    url: str
    depth: int
    attempt: int
    """Number of this visit, from 1."""
    hops: int
    """Number of consecutive redirects that led here."""
    validator: str | None = None
    """Validator of an earlier visit for a conditional request."""


class HostState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State that moves with a host when another worker takes it over. Instants are wall clock."""

    next_at: float = 0.0
    """Earliest time of the next request."""
    delay_s: float = 0.0
    failures: int = 0
    """Number of failures in a row."""
    robots: bytes | None = None
    """Text of robots.txt, cut to the limit; `None` when it was not fetched yet."""
    robots_status: int = 0
    robots_until: float = 0.0
    robots_failed_at: float = 0.0
    """Time since which robots.txt cannot be fetched; 0 if the last fetch succeeded."""
    cookies: str = ""
    """Cookies as `crawl.fetch.cookies` writes them."""


class HostLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to visit URLs of one host, until the lease is released or lost."""

    host: str
    token: int
    """Fencing token: it increases with each lease of the host, and a commit with an older one is
    refused."""
    urls: Sequence[WaitingUrl]
    state: HostState | None = None
    """State of the host; only with the first portion of a lease."""


class Visit(NamedTuple):
    """The end of a URL's visit. The URL is not visited again unless it is found at a lower
    depth."""

    id: int
    outcome: Outcome
    status: int
    at: float
    links: Sequence[Link] = ()
    """All links of the page that belong to the crawl, even at the maximum depth: the page may have
    been found at a lower depth since it was leased, or may be later."""
    redirect: Link | None = None
    """Target of a redirect, at the same depth and with one more hop."""
    counts: bool = True
    """True if the visit counts as a page towards `max_pages`."""
    validator: str | None = None
    note: str = ""
    """Text for `explain`."""


class UrlRetry(NamedTuple):
    """A URL to visit again, at `due` at the earliest."""

    id: int
    outcome: Outcome
    status: int
    at: float
    due: float
    note: str = ""


class HostCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Results for the URLs of one lease."""

    host: str
    token: int
    visits: Sequence[Visit] = ()
    retries: Sequence[UrlRetry] = ()
    returned: Sequence[int] = ()
    """Ids of URLs that were not visited: they wait again as if they had not been leased."""
    state: HostState | None = None
    release: bool = False
    """End the lease; leased URLs that the commit does not mention wait again."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic step of a crawl."""

    hosts: Sequence[HostCommit]
    receipts: Mapping[str, Any] = {}
    """Answers of sinks to `stage`, by sink, as JSON values; each replaces the sink's receipt."""


class FrontierRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that the frontier enforces.

    `max_depth` and `dedup` do not change when a crawl continues in a later life.
    """

    max_depth: int | None = None
    max_pages: int | None = None
    max_per_host: int | None = None
    """Maximum number of URLs of a host; further ones are counted and dropped, except seeds."""
    dedup: str = "exact"
    """`exact`, or `bloom`: a URL keeps the depth at which it was first found."""
    dedup_capacity: int = 1_000_000


class FrontierCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of known URLs by state."""

    known: int
    waiting: int
    """Waiting URLs, including those whose retry time has not come."""
    leased: int
    done: int
    """Visited URLs, whatever the outcome."""
    pages: int
    """URLs that count towards `max_pages`."""
    dropped: int = 0
    """Links that `max_per_host` rejected, counted each time, and URLs that a Bloom filter is
    expected to have lost."""
    outcomes: Mapping[str, int] = {}
    depths: Mapping[int, int] = {}
    totals: NoteTotals | None = None
    """Sum of the notes among the receipts (`model.crawl.notes`), as of the same step; `None` in
    frontiers that were written before there were notes."""
    next_due: float | None = None
    """Earliest time at which a URL becomes available that was not at the last lease: a retry, or a
    host's `next_at`. `None` when nothing waits for its time."""

    @property
    def outstanding(self) -> int:
        """Return the number of URLs left to visit. At 0 the crawl is finished; it may also be
        finished earlier, when `max_pages` is reached."""
        return self.waiting + self.leased


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """Number of hosts with URLs to visit, by worker."""

    free: int
    """Hosts that no worker has leased, including hosts whose delay has not passed."""
    lent: Mapping[str, int]
    """Number of leased hosts by worker."""


class HostFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one host in the frontier."""

    host: str
    waiting: int
    leased: int
    done: int
    failures: int
    next_at: float
    worker: str = ""
    """Worker that has leased the host."""


class PartitionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one partition of a frontier, with the workers that lease its hosts."""

    number: int
    waiting: int
    leased: int
    done: int
    free: int
    """Hosts with URLs to visit that no worker has leased, including hosts whose delay has not
    passed."""
    lent: Mapping[str, int]
    """Number of leased hosts by worker."""


class UrlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A frontier's record of one URL."""

    id: int
    url: str
    host: str
    status: str
    """`waiting`, `leased` or `done`."""
    depth: int
    attempts: int
    """Number of visits that have ended."""
    found_on: str | None = None
    """URL of the page or redirect where it was first found; `None` for a seed."""
    found_at: float | None = None
    due: float | None = None
    outcome: str | None = None
    http_status: int = 0
    at: float | None = None
    note: str = ""
