"""A crawl as people order it: where it begins, what belongs to it, how it behaves, what it keeps.

The same struct is the `parameters` of a `web_crawl` task and what `crawlfleet crawl` builds from
its options. Sections with defaults, so that one address alone is a whole, polite crawl.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Pattern = Annotated[str, Meta(min_length=1, max_length=2000, examples=["/products/", r"\.html$"])]
Address = Annotated[str, Meta(examples=["https://shop.example/"])]


class Outcome(StrEnum):
    """How the visit of a URL ended. Everything a site can do to us is one of these."""

    OK = "ok"
    NOT_MODIFIED = "not_modified"
    REDIRECT = "redirect"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    PAYMENT_REQUIRED = "payment_required"
    """402: the site wants to be paid for its pages, as some do of crawlers."""
    BLOCKED = "blocked"
    """401, 403, 407, 429, 451 and pages that say so: the site does not want us (now)."""
    ROBOTS = "robots"
    REFUSED = "refused"
    """The egress guard, not the site, said no."""
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    BAD_RESPONSE = "bad_response"
    """Not HTTP, or broken off: wrong lengths, broken chunks, endless headers."""
    TOO_LARGE = "too_large"
    BAD_CONTENT = "bad_content"
    """An answer that is not what it says: undecodable, binary as HTML."""
    UNREADABLE = "unreadable"
    """Reading it took more time or memory than a page may have, or failed."""
    UNWANTED = "unwanted"
    """A content type that the crawl does not take; its body was not read."""
    SOFT_404 = "soft_404"
    REDIRECT_LOOP = "redirect_loop"


FETCHED: Final = frozenset({Outcome.OK, Outcome.NOT_MODIFIED, Outcome.SOFT_404})
SPARED: Final = frozenset({Outcome.REDIRECT, Outcome.ROBOTS, Outcome.REFUSED, Outcome.UNWANTED})
"""Neither a page nor an error: nobody wanted it from there."""
ERRORS: Final = frozenset(Outcome) - FETCHED - SPARED
"""The URL was asked for, and there is no page of it."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of a crawl's options that belong together."""


class Scope(Part, frozen=True, kw_only=True):
    """Which of the found links belong to the crawl; each rule can only take away."""

    within: Literal["host", "domain", "prefix", "any"] = "host"
    """How far links may lead: on the `host` of a seed, on its registered `domain` with all of its
    hosts, below the folder of a seed (`prefix`), or to `any` site."""
    allow: tuple[Pattern, ...] = ()
    """Regular expressions; where there are any, one must match somewhere in the URL."""
    deny: tuple[Pattern, ...] = ()
    """Regular expressions; URLs in which one matches are left out, whatever `allow` says."""
    max_url_chars: Annotated[int, Meta(ge=64, le=65536)] = 2000
    """Longer URLs are not followed."""
    max_path_segments: Annotated[int, Meta(ge=1)] = 32
    """Folders within folders that a path may have."""
    max_repeated_segments: Annotated[int, Meta(ge=1)] = 3
    """`/a/b/a/b/a/b/` is a trap: a path segment may stand in a path so often."""
    max_query_parameters: Annotated[int, Meta(ge=0)] = 12
    """URLs whose query has more of them are not followed."""
    max_query_variants: Annotated[int, Meta(ge=1)] = 1000
    """So many different queries of one path are followed: calendars and filters are endless."""
    max_years_ahead: Annotated[int, Meta(ge=0)] | None = 3
    """A calendar is followed so far into the future; for ever where this is `null`."""
    follow_nofollow: bool = True
    """Whether `rel=nofollow` links are followed."""
    obey_meta_robots: bool = True
    """Whether `<meta name=robots>` and `X-Robots-Tag` decide on following and keeping."""
    sitemaps: bool = False
    """Whether the sitemaps that robots.txt names are a source of links."""
    feeds: bool = False
    """Whether RSS and Atom feeds that pages name are a source of links."""


class Limits(Part, frozen=True, kw_only=True):
    """What bounds the crawl and each of its requests."""

    max_pages: Annotated[int, Meta(ge=1)] | None = None
    """The crawl ends after so many pages, with what it has."""
    max_per_host: Annotated[int, Meta(ge=1)] | None = None
    """No host gives more pages than this."""
    max_seconds: Seconds | None = None
    """The crawl ends after so long, with what it has."""
    max_body_bytes: Annotated[int, Meta(ge=1024)] = 10_000_000
    """Of a decoded body; a larger one is `too_large`."""
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 65_536
    """Of all headers of one answer."""
    max_redirects: Annotated[int, Meta(ge=0)] = 10
    """Followed one after the other; more are a `redirect_loop`."""
    connect_s: Seconds = 10.0
    """Until a connection stands."""
    first_byte_s: Seconds = 30.0
    """Until the answer begins."""
    idle_s: Seconds = 15.0
    """Between two pieces of an answer."""
    total_s: Seconds = 60.0
    """For one request in all."""
    content_types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "application/json")
    """Others are not read; `*/*` takes all. Sitemaps and feeds are read where asked for."""


class Politeness(Part, frozen=True, kw_only=True):
    """How a site is treated. The defaults are those of a guest."""

    obey_robots: bool = True
    """Whether what robots.txt forbids is left alone."""
    delay_s: Annotated[float, Meta(ge=0)] = 1.0
    """Between the starts of two requests to a host; robots.txt may ask for more."""
    max_delay_s: Annotated[float, Meta(ge=0)] = 120.0
    """A longer Crawl-delay is shortened to this."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Requests to one host at once."""
    per_domain: Annotated[int, Meta(ge=1, le=1000)] | None = 4
    """However many hosts a registered domain has, together they are asked no more than so many;
    no such limit where this is `null`."""
    per_address: Annotated[int, Meta(ge=1, le=1000)] | None = 8
    """Likewise the hosts on one IP address."""
    adaptive: bool = True
    """Whether slow answers, 429 and 503 slow us down (Retry-After is always obeyed)."""
    retries: Annotated[int, Meta(ge=0, le=100)] = 3
    """Further tries after an outcome that may pass."""
    retry_delay_s: Annotated[float, Meta(ge=0)] = 5.0
    """Before the first of them; doubles with each."""


FAST: Final = Politeness(
    obey_robots=False,
    delay_s=0.0,
    concurrency=16,
    per_domain=None,
    per_address=None,
    adaptive=False,
)
"""For one's own sites."""


class Fetching(Part, frozen=True, kw_only=True):
    """How requests look and which way they go."""

    user_agent: Annotated[str, Meta(examples=["shop-watch/1.0 (+https://me.example)"])] | None = (
        None
    )
    """What the crawl calls itself; an honest name with a contact where this is not set."""
    contact: Annotated[str, Meta(examples=["crawls@me.example"])] | None = None
    """An address or page that the default user agent names, for who wants to complain."""
    headers: dict[str, str] = {}
    """Sent with every request, beside the usual ones; on a fleet `${secret:NAME}` stands for a
    secret of the project."""
    cookies: bool = True
    """Whether cookies are kept and sent back, for each host on its own."""
    proxy: Annotated[str, Meta(examples=["http://proxy.example:3128"])] | None = None
    """All requests go through it: `http://`, `https://` or `socks5://`; on a fleet a password is
    `${secret:NAME}`."""
    allow_private: bool = False
    """Whether addresses of private networks may be visited, where the node allows it."""
    verify_tls: bool = True
    """Whether certificates are checked; without, anybody on the way can change pages."""
    http2: bool = True
    """Whether HTTP/2 is offered, where the extra `http2` is installed."""
    conditional: bool = True
    """Whether pages seen before are asked for with If-None-Match and If-Modified-Since."""


class Urls(Part, frozen=True, kw_only=True):
    """When two addresses count as the same page."""

    drop_parameters: tuple[Annotated[str, Meta(examples=["sort", "ref"])], ...] = ()
    """Query parameters that do not matter, beside the known tracking parameters."""
    keep_tracking: bool = False
    """Whether `utm_source`, `gclid` and the like make another page."""
    keep_fragment: bool = False
    """Whether what follows `#` makes another page, as on sites that are one program."""
    sort_query: bool = True
    """Whether the order of query parameters does not matter."""
    drop_session_ids: bool = True
    """`jsessionid`, `phpsessid` and the like, in path and query."""
    trailing_slash: Literal["keep", "drop"] = "keep"
    """`drop`: `/shop/` and `/shop` are one page."""


FLEET: Final = "fleet:"
"""The master's storage, as the place of a sink."""


class SinkSpec(Part, frozen=True, kw_only=True):
    """One place where the crawl's output goes; the scheme of the URL names the kind."""

    url: Annotated[str, Meta(examples=["fleet:items"])]
    """A path or `file:`, `sqlite:`, `postgresql:` URL; the ending tells the format of a file, and
    `?table=` the table of a database. Other schemes are the formats of their name. On a fleet,
    paths lie below the node's `worker.sinks_dir`, a password is `${secret:NAME}`, and
    `fleet:items` and `fleet:pages` (a WARC archive) are the master's storage; items go there when
    no sink is named."""
    format: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")] | None = None
    """`jsonl`, `csv`, `warc`, `table`, or what an installed package offers."""
    compress: Literal["gzip", "zstd"] | None = None
    """Files are packed with this."""
    rotate_mb: Annotated[float, Meta(gt=0)] | None = None
    """Files: another one is begun once one has so many million bytes."""
    columns: tuple[str, ...] = ()
    """Of CSV; those of the selectors where none are named."""
    kinds: bool = False
    """Whether each line or row names the kind of its item; always where a crawl has several."""


class PostgresAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A database that a sink of a task names: all that the node needs to know, so that it takes
    nothing from its own files and variables."""

    hosts: tuple[tuple[str, int], ...]
    """Each with its port; the first that answers is used."""
    user: str
    password: str
    database: str
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"

    def __repr__(self) -> str:
        return f"PostgresAddress({self.hosts}, {self.database})"


class NodeSink(SinkSpec, frozen=True, kw_only=True):
    """A sink of a task, with what the node that writes it allows. Nobody can send one."""

    folder: str
    """Its files lie below this folder, and no link leads there."""
    allow_private: bool = False
    """Whether it may connect to loopback, private and link-local addresses, and to the node."""
    address: PostgresAddress | None = None
    """Of a database on another machine."""


class CrawlParameters(Part, frozen=True, kw_only=True):
    """A whole crawl."""

    url: Address | None = None
    """Where the crawl begins."""
    urls: tuple[Address, ...] = ()
    """Where the crawl begins, when that is in several places."""
    depth: Annotated[int, Meta(ge=0)] | None = None
    """How many links away from a seed pages may be; 0 takes the seeds alone, and without it all
    links are followed."""
    selectors: dict[str, Any] = {}
    """What is taken out of each page: names, and where on the page they stand. One that contains
    the others, such as `product`, is the item; the explicit nested form is possible, too."""
    item: Annotated[str, Meta(max_length=2000, examples=["div.product"])] | None = None
    """What one item is: each match of this selector is one, and `selectors` are its fields, looked
    for within it."""
    infer_item: bool = True
    """Whether, without `item`, a key of `selectors` that contains the others is the item; else each
    page is one item, with all of `selectors` as its fields."""
    structured: bool = False
    """Whether JSON-LD and OpenGraph go into the items."""
    scope: Scope = Scope()
    limits: Limits = Limits()
    politeness: Politeness = Politeness()
    fetching: Fetching = Fetching()
    canonical: Urls = Urls()
    dedup: Literal["exact", "bloom"] = "exact"
    """How known URLs are remembered: `exact`, or in little memory and with a small share of pages
    that may be missed (`bloom`)."""
    dedup_capacity: Annotated[int, Meta(ge=1000)] = 1_000_000
    """For `bloom`: so many URLs are expected; more make it grow."""
    sinks: tuple[SinkSpec, ...] = ()
    """Where items go; on a fleet to the master's storage when none is named."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """So many workers share the crawl."""
    split_hosts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Into how many parts, at most, the URLs of a host are divided on a fleet, so that several
    workers visit it at once, together within its limits; 1 leaves each host to one worker at a
    time. By itself a host is divided where it may be asked for several pages at once and without a
    delay, if the crawl begins on fewer hosts than it has `workers`."""
    frontier: Literal["master", "node", "redis"] | None = None
    """Where a crawl on a fleet keeps its books: at the master, so that it goes on elsewhere when
    its node is gone, in the fleet's Redis, where many nodes reach them by themselves, or on the
    node. By default at the master, or in Redis when the fleet has one and there are several
    `workers`; on the node when its output goes to `sinks` of its own."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """All addresses to begin with."""
        return (*((self.url,) if self.url else ()), *self.urls)
