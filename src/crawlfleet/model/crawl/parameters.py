"""Parameters of a crawl: its seeds, scope, limits, politeness and output.

The same struct is the `parameters` of a `web_crawl` task and the result of parsing the options of
`crawlfleet crawl`. All sections have defaults: with one address alone it is a complete, polite
crawl.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Pattern = Annotated[str, Meta(min_length=1, max_length=2000, examples=["/products/", r"\.html$"])]
Address = Annotated[str, Meta(examples=["https://shop.example/"])]


class Outcome(StrEnum):
    """Outcome of the visit of a URL. Every answer or failure of a site is one of these."""

    OK = "ok"
    NOT_MODIFIED = "not_modified"
    REDIRECT = "redirect"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    PAYMENT_REQUIRED = "payment_required"
    """402: the site demands payment for its pages."""
    BLOCKED = "blocked"
    """401, 403, 407, 429, 451 and pages with the same message: the site refuses us (for now)."""
    ROBOTS = "robots"
    REFUSED = "refused"
    """The node's egress guard refused the request, not the site."""
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    BAD_RESPONSE = "bad_response"
    """Not HTTP, or broken off: wrong lengths, broken chunks, endless headers."""
    TOO_LARGE = "too_large"
    BAD_CONTENT = "bad_content"
    """Content that does not match its type: undecodable text, or binary data as HTML."""
    UNREADABLE = "unreadable"
    """Parsing took more time or memory than allowed, or failed."""
    UNWANTED = "unwanted"
    """A content type that the crawl does not accept; the body was not read."""
    SOFT_404 = "soft_404"
    REDIRECT_LOOP = "redirect_loop"


FETCHED: Final = frozenset({Outcome.OK, Outcome.NOT_MODIFIED, Outcome.SOFT_404})
SPARED: Final = frozenset({Outcome.REDIRECT, Outcome.ROBOTS, Outcome.REFUSED, Outcome.UNWANTED})
"""Outcomes that are neither a page nor an error."""
ERRORS: Final = frozenset(Outcome) - FETCHED - SPARED
"""Outcomes of requests that gave an error instead of a page."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of a crawl's options."""


class Scope(Part, frozen=True, kw_only=True):
    """Rules for the links that belong to the crawl; each rule can only exclude links."""

    within: Literal["host", "domain", "prefix", "any"] = "host"
    """Range of links to follow: the `host` of a seed, its registered `domain` with all hosts, the
    folder of a seed (`prefix`), or `any` site."""
    allow: tuple[Pattern, ...] = ()
    """Regular expressions; if there are any, one must match somewhere in the URL."""
    deny: tuple[Pattern, ...] = ()
    """Regular expressions; URLs in which one matches are excluded, whatever `allow` says."""
    max_url_chars: Annotated[int, Meta(ge=64, le=65536)] = 2000
    """Maximum length of a URL; longer URLs are not followed."""
    max_path_segments: Annotated[int, Meta(ge=1)] = 32
    """Maximum number of segments in a URL's path."""
    max_repeated_segments: Annotated[int, Meta(ge=1)] = 3
    """Maximum repetitions of a segment in a path: `/a/b/a/b/a/b/` is a trap."""
    max_query_parameters: Annotated[int, Meta(ge=0)] = 12
    """Maximum number of query parameters; URLs with more are not followed."""
    max_query_variants: Annotated[int, Meta(ge=1)] = 1000
    """Maximum number of different queries of one path, because calendars and filters are
    endless."""
    max_years_ahead: Annotated[int, Meta(ge=0)] | None = 3
    """Maximum number of years into the future for which calendars are followed; `null` for no
    limit."""
    follow_nofollow: bool = True
    """Follow `rel=nofollow` links."""
    obey_meta_robots: bool = True
    """Obey `<meta name=robots>` and `X-Robots-Tag` about following links and keeping
    pages."""
    sitemaps: bool = False
    """Take links from the sitemaps that robots.txt names."""
    feeds: bool = False
    """Take links from the RSS and Atom feeds that pages name."""


class Limits(Part, frozen=True, kw_only=True):
    """Limits of the crawl and of each request."""

    max_pages: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of pages; then the crawl ends with the results so far."""
    max_per_host: Annotated[int, Meta(ge=1)] | None = None
    """Maximum number of pages of one host."""
    max_seconds: Seconds | None = None
    """Maximum duration in seconds; then the crawl ends with the results so far."""
    max_body_bytes: Annotated[int, Meta(ge=1024)] = 10_000_000
    """Maximum size of a decoded body; a larger one is `too_large`."""
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 65_536
    """Maximum size of all headers of one answer."""
    max_redirects: Annotated[int, Meta(ge=0)] = 10
    """Maximum number of consecutive redirects; more are a `redirect_loop`."""
    connect_s: Seconds = 10.0
    """Timeout for connecting."""
    first_byte_s: Seconds = 30.0
    """Timeout until the answer begins."""
    idle_s: Seconds = 15.0
    """Timeout between two parts of an answer."""
    total_s: Seconds = 60.0
    """Timeout of one request in all."""
    content_types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "application/json")
    """Content types to read; `*/*` accepts all. Sitemaps and feeds are read where requested."""


class Politeness(Part, frozen=True, kw_only=True):
    """Limits of the load on sites. The defaults are polite."""

    obey_robots: bool = True
    """Leave alone what a site forbids in its robots.txt."""
    delay_s: Annotated[float, Meta(ge=0)] = 1.0
    """Seconds between the starts of two requests to a host; robots.txt may demand more."""
    max_delay_s: Annotated[float, Meta(ge=0)] = 120.0
    """Maximum delay; a longer Crawl-delay is reduced to this."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Maximum number of requests at once to one host."""
    per_domain: Annotated[int, Meta(ge=1, le=1000)] | None = 4
    """Maximum number of requests at once to all hosts of a registered domain together; `null` for
    no limit."""
    per_address: Annotated[int, Meta(ge=1, le=1000)] | None = 8
    """Maximum number of requests at once to all hosts on one IP address; `null` for no limit."""
    adaptive: bool = True
    """Slow down after slow answers, 429 and 503 (Retry-After is always obeyed)."""
    retries: Annotated[int, Meta(ge=0, le=100)] = 3
    """Maximum number of retries after an outcome that may be temporary."""
    retry_delay_s: Annotated[float, Meta(ge=0)] = 5.0
    """Seconds before the first retry; doubles with each further one."""


FAST: Final = Politeness(
    obey_robots=False,
    delay_s=0.0,
    concurrency=16,
    per_domain=None,
    per_address=None,
    adaptive=False,
)
"""Politeness for one's own sites."""


class Fetching(Part, frozen=True, kw_only=True):
    """Headers, proxy and protocol of requests."""

    user_agent: Annotated[str, Meta(examples=["shop-watch/1.0 (+https://me.example)"])] | None = (
        None
    )
    """User agent of the crawl; an honest name with a contact when not set."""
    contact: Annotated[str, Meta(examples=["crawls@me.example"])] | None = None
    """Address or page for complaints, which the default user agent names."""
    headers: dict[str, str] = {}
    """Headers of every request, in addition to the usual ones; on a fleet `${secret:NAME}` stands
    for a secret of the project."""
    cookies: bool = True
    """Store cookies and send them back, separately for each host."""
    proxy: Annotated[str, Meta(examples=["http://proxy.example:3128"])] | None = None
    """Proxy of all requests: `http://`, `https://` or `socks5://`; on a fleet a password is
    `${secret:NAME}`."""
    allow_private: bool = False
    """Allow private addresses, where the node allows them."""
    verify_tls: bool = True
    """Check certificates; without this, anybody on the network path can change pages."""
    http2: bool = True
    """Offer HTTP/2, where the extra `http2` is installed."""
    conditional: bool = True
    """Request known pages with If-None-Match and If-Modified-Since."""


class Urls(Part, frozen=True, kw_only=True):
    """Rules for treating two URLs as the same page."""

    drop_parameters: tuple[Annotated[str, Meta(examples=["sort", "ref"])], ...] = ()
    """Query parameters to ignore, in addition to the known tracking parameters."""
    keep_tracking: bool = False
    """Keep `utm_source`, `gclid` and the like: they make a different page."""
    keep_fragment: bool = False
    """Keep the text after `#`: it makes a different page, as on single-page applications."""
    sort_query: bool = True
    """Ignore the order of query parameters."""
    drop_session_ids: bool = True
    """Ignore `jsessionid`, `phpsessid` and the like, in path and query."""
    trailing_slash: Literal["keep", "drop"] = "keep"
    """Treatment of a trailing slash; `drop`: `/shop/` and `/shop` are the same page."""


FLEET: Final = "fleet:"
"""Scheme of sinks in the master's storage."""


class SinkSpec(Part, frozen=True, kw_only=True):
    """A destination of the crawl's output; the scheme of the URL selects the kind."""

    url: Annotated[str, Meta(examples=["fleet:items"])]
    """A path or `file:`, `sqlite:`, `postgresql:` URL; the ending selects the format of a file,
    and `?table=` the table of a database. Other schemes are formats of that name. On a fleet,
    paths are below the node's `worker.sinks_dir`, a password is `${secret:NAME}`, and
    `fleet:items` and `fleet:pages` (a WARC archive) are the master's storage; items go there
    when no sink is named."""
    format: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")] | None = None
    """`jsonl`, `csv`, `warc`, `table`, or a format of an installed package."""
    compress: Literal["gzip", "zstd"] | None = None
    """Compression of files."""
    rotate_mb: Annotated[float, Meta(gt=0)] | None = None
    """Maximum size of a file in millions of bytes; then another file is begun."""
    columns: tuple[str, ...] = ()
    """Columns of CSV; the fields of the selectors when empty."""
    kinds: bool = False
    """Write the kind of the item in each line or row; always done if a crawl has several kinds."""


class PostgresAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a database that a task's sink names, complete, so that the node adds nothing
    from its own files and environment variables."""

    hosts: tuple[tuple[str, int], ...]
    """Hosts with ports; the first that answers is used."""
    user: str
    password: str
    database: str
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"

    def __repr__(self) -> str:
        return f"PostgresAddress({self.hosts}, {self.database})"


class NodeSink(SinkSpec, frozen=True, kw_only=True):
    """A sink of a task, with the permissions of the node that writes it. Clients cannot send
    one."""

    folder: str
    """Folder of its files; no link may lead out of it."""
    allow_private: bool = False
    """True if it may connect to loopback, private and link-local addresses, and to the node."""
    address: PostgresAddress | None = None
    """Address of a database on another machine."""


class CrawlParameters(Part, frozen=True, kw_only=True):
    """All parameters of a crawl."""

    url: Address | None = None
    """Seed of the crawl."""
    urls: tuple[Address, ...] = ()
    """Seeds of the crawl, where there are several."""
    depth: Annotated[int, Meta(ge=0)] | None = None
    """Maximum number of links from a seed to a page; 0 visits only the seeds, and all links are
    followed when not set."""
    selectors: dict[str, Any] = {}
    """Fields to extract from each page: names with selectors. A field that contains the others,
    such as `product`, is the item; the explicit nested form is possible, too."""
    item: Annotated[str, Meta(max_length=2000, examples=["div.product"])] | None = None
    """Selector of one item: each match is an item, and `selectors` are its fields, looked for
    within it."""
    infer_item: bool = True
    """Find the item without `item`: a key of `selectors` that contains the others is the item;
    otherwise each page is one item, with all `selectors` as its fields."""
    structured: bool = False
    """Add JSON-LD and OpenGraph data to the items."""
    scope: Scope = Scope()
    limits: Limits = Limits()
    politeness: Politeness = Politeness()
    fetching: Fetching = Fetching()
    canonical: Urls = Urls()
    dedup: Literal["exact", "bloom"] = "exact"
    """Storage of known URLs: `exact`, or `bloom`, which needs little memory but may miss a small
    share of pages."""
    dedup_capacity: Annotated[int, Meta(ge=1000)] = 1_000_000
    """Expected number of URLs for `bloom`; with more, the filter grows."""
    sinks: tuple[SinkSpec, ...] = ()
    """Destinations of items; on a fleet the master's storage when empty."""
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Number of workers that share the crawl."""
    split_hosts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Maximum number of parts that the URLs of a host are split into on a fleet, so that several
    workers visit it at once, together within its limits; with 1, one worker at a time visits a
    host. When not set, a host is split if it allows several requests at once without a delay and
    the crawl starts with fewer hosts than `workers`."""
    frontier: Literal["master", "node", "redis"] | None = None
    """Place of the frontier of a crawl on a fleet: at the `master`, so that the crawl continues on
    another node; in the fleet's `redis`, which many nodes reach directly; or on the `node`. The
    default is the master, or Redis if the fleet has it and there are several `workers`; it is the
    node if the crawl has `sinks` of its own."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """All addresses to begin with."""
        return (*((self.url,) if self.url else ()), *self.urls)
