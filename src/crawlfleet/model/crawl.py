"""A crawl as people order it: where it begins, what belongs to it, how it behaves, what it keeps.

The same struct is the `parameters` of a `web_crawl` task and what `crawlfleet crawl` builds from
its options. Sections with defaults, so that one address alone is a whole, polite crawl.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Pattern = Annotated[str, Meta(min_length=1, max_length=2000)]


class Outcome(StrEnum):
    """How the visit of a URL ended. Everything a site can do to us is one of these."""

    OK = "ok"
    NOT_MODIFIED = "not_modified"
    REDIRECT = "redirect"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
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
    UNWANTED = "unwanted"
    """A content type that the crawl does not take; its body was not read."""
    SOFT_404 = "soft_404"
    REDIRECT_LOOP = "redirect_loop"


FETCHED: Final = frozenset({Outcome.OK, Outcome.NOT_MODIFIED, Outcome.SOFT_404})


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of a crawl's options that belong together."""


class Scope(Part, frozen=True, kw_only=True):
    """Which of the found links belong to the crawl; each rule can only take away."""

    within: Literal["host", "domain", "prefix", "any"] = "host"
    """The hosts of the seeds, their registrable domains, the folders of the seeds, or anything."""
    allow: tuple[Pattern, ...] = ()
    """Regular expressions; where there are any, one must match somewhere in the URL."""
    deny: tuple[Pattern, ...] = ()
    max_url_chars: Annotated[int, Meta(ge=64, le=65536)] = 2000
    max_path_segments: Annotated[int, Meta(ge=1)] = 32
    max_repeated_segments: Annotated[int, Meta(ge=1)] = 3
    """`/a/b/a/b/a/b/` is a trap: a path segment may stand in a path so often."""
    max_query_parameters: Annotated[int, Meta(ge=0)] = 12
    max_query_variants: Annotated[int, Meta(ge=1)] = 1000
    """So many different queries of one path are followed: calendars and filters are endless."""
    max_years_ahead: Annotated[int, Meta(ge=0)] | None = 3
    """A calendar is followed so far into the future; `None` follows it for ever."""
    follow_nofollow: bool = True
    """Whether `rel=nofollow` links are followed."""
    obey_meta_robots: bool = True
    """Whether `<meta name=robots>` and `X-Robots-Tag` decide on following and keeping."""
    sitemaps: bool = False
    """Whether the sitemaps that robots.txt names are a source of links."""
    feeds: bool = False


class Limits(Part, frozen=True, kw_only=True):
    """What bounds the crawl and each of its requests."""

    max_pages: Annotated[int, Meta(ge=1)] | None = None
    max_per_host: Annotated[int, Meta(ge=1)] | None = None
    max_seconds: Seconds | None = None
    max_body_bytes: Annotated[int, Meta(ge=1024)] = 10_000_000
    """Of a decoded body; a larger one is `too_large`."""
    max_header_bytes: Annotated[int, Meta(ge=1024)] = 65_536
    max_redirects: Annotated[int, Meta(ge=0)] = 10
    connect_s: Seconds = 10.0
    first_byte_s: Seconds = 30.0
    idle_s: Seconds = 15.0
    total_s: Seconds = 60.0
    content_types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "application/json")
    """Others are not read; `*/*` takes all. Sitemaps and feeds are read where asked for."""


class Politeness(Part, frozen=True, kw_only=True):
    """How a site is treated. The defaults are those of a guest."""

    obey_robots: bool = True
    delay_s: Annotated[float, Meta(ge=0)] = 1.0
    """Between the starts of two requests to a host; robots.txt may ask for more."""
    max_delay_s: Annotated[float, Meta(ge=0)] = 120.0
    """A longer Crawl-delay is shortened to this."""
    concurrency: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Requests to one host at once."""
    per_domain: Annotated[int, Meta(ge=1, le=1000)] | None = 4
    """However many hosts a registered domain has, together they are asked no more than so many;
    `None` for no such limit."""
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

    user_agent: str | None = None
    """An honest one with a contact by default."""
    contact: str | None = None
    """An address or page that the default user agent names."""
    headers: dict[str, str] = {}
    cookies: bool = True
    proxy: str | None = None
    """`http://`, `https://` or `socks5://`."""
    allow_private: bool = False
    """Whether addresses of private networks may be visited, where the node allows it."""
    verify_tls: bool = True
    http2: bool = True
    """Whether HTTP/2 is offered, where the extra `http2` is installed."""
    conditional: bool = True
    """Whether pages seen before are asked for with If-None-Match and If-Modified-Since."""


class Urls(Part, frozen=True, kw_only=True):
    """When two addresses count as the same page."""

    drop_parameters: tuple[str, ...] = ()
    """Query parameters that do not matter, beside the known tracking parameters."""
    keep_tracking: bool = False
    keep_fragment: bool = False
    sort_query: bool = True
    drop_session_ids: bool = True
    """`jsessionid`, `phpsessid` and the like, in path and query."""
    trailing_slash: Literal["keep", "drop"] = "keep"


class SinkSpec(Part, frozen=True, kw_only=True):
    """One place where the crawl's output goes; the scheme of the URL names the kind."""

    url: str
    """A path or `file:`, `sqlite:`, `postgresql:` URL; the ending tells the format of a file, and
    `?table=` the table of a database. Other schemes are the formats of their name. On a fleet,
    `fleet:items` and `fleet:pages` (a WARC archive) are the master's storage; items go there when
    no sink is named."""
    format: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")] | None = None
    """`jsonl`, `csv`, `warc`, `table`, or what an installed package offers."""
    compress: Literal["gzip", "zstd"] | None = None
    rotate_mb: Annotated[float, Meta(gt=0)] | None = None
    """Files: another one is begun once one has so many million bytes."""
    columns: tuple[str, ...] = ()
    """Of CSV; those of the selectors where none are named."""
    kinds: bool = False
    """Whether each line or row names the kind of its item; always where a crawl has several."""


class CrawlParameters(Part, frozen=True, kw_only=True):
    """A whole crawl."""

    url: str | None = None
    urls: tuple[str, ...] = ()
    depth: Annotated[int, Meta(ge=0)] | None = None
    """Links to follow from a seed; `None` follows all."""
    selectors: dict[str, Any] = {}
    """The flat map `{product, title, price}`, or the explicit nested form."""
    structured: bool = False
    """Whether JSON-LD and OpenGraph go into the items."""
    scope: Scope = Scope()
    limits: Limits = Limits()
    politeness: Politeness = Politeness()
    fetching: Fetching = Fetching()
    canonical: Urls = Urls()
    dedup: Literal["exact", "bloom"] = "exact"
    dedup_capacity: Annotated[int, Meta(ge=1000)] = 1_000_000
    """For `bloom`: so many URLs are expected; more make it grow."""
    sinks: tuple[SinkSpec, ...] = ()
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    frontier: Literal["master", "node"] | None = None
    """Where a crawl on a fleet keeps its books: at the master, so that it goes on elsewhere when
    its node is gone, or on the node. By default at the master, unless its output goes to `sinks`
    of its own."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """All addresses to begin with."""
        return (*((self.url,) if self.url else ()), *self.urls)
