"""Figures of a running crawl, which its executor reports every second or two."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

MAX_HOSTS: Final = 50
MAX_RATES: Final = 60
MAX_DEPTHS: Final = 200
MAX_CLASSES: Final = 100
MAX_EMPTY_FIELDS: Final = 20
LONGEST_TEXT: Final = 300


class HostReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host of a crawl."""

    host: Annotated[str, Meta(max_length=LONGEST_TEXT)]
    pages: int = 0
    """Visited URLs, whatever the outcome."""
    waiting: int = 0
    errors: int = 0
    latency_ms: float | None = None
    """Mean time of an answer."""
    delay_s: float | None = None
    """Length of its last pause."""
    rests_until: float | None = None
    """End of its present pause."""
    why: Annotated[str, Meta(max_length=LONGEST_TEXT)] = ""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Number of pages in a period; `at` is its end."""

    at: float
    pages: int


class CrawlFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a crawl."""

    at: float = 0.0
    """Time by the node's clock, in seconds since 1970, as are all instants here."""
    is_paused: bool = False
    is_final: bool = False
    """True if the crawl has ended."""
    pages: int = 0
    """Committed pages over all attempts, as are all figures except `rate_per_s`, `hosts` and
    `rates`."""
    rate_per_s: float = 0.0
    """Pages per second over about the last ten seconds."""
    items: int = 0
    """Items in the output."""
    bytes: int = 0
    """Bytes received."""
    requests: int = 0
    """Requests, including redirects, robots.txt and retries; at least as many as `pages`."""
    retries: int = 0
    """Visits after which the URL was queued again."""
    known: int = 0
    """URLs that belong to the crawl: `waiting`, `in_flight` and `done` together."""
    waiting: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    """URLs of `done` whose visit gave an error instead of a page."""
    rejected: int = 0
    """Links that do not belong to the crawl, counted each time one was found."""
    outcomes: Annotated[dict[str, int], Meta(max_length=MAX_CLASSES)] = {}
    depths: Annotated[tuple[int, ...], Meta(max_length=MAX_DEPTHS)] = ()
    """Number of known URLs by their distance from a seed."""
    empty_fields: Annotated[dict[str, str], Meta(max_length=MAX_EMPTY_FIELDS)] = {}
    """Selectors that have matched nothing on many pages, by field; at the end, on any page."""
    hosts: Annotated[tuple[HostReport, ...], Meta(max_length=MAX_HOSTS)] = ()
    """Hosts with the most blocked and slowest first, at most 50."""
    rates: Annotated[tuple[Rate, ...], Meta(max_length=MAX_RATES)] = ()
    """The last minutes, in periods of ten seconds."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a crawl's figures that belongs to one of its tasks, over all attempts."""

    pages: int = 0
    items: int = 0


class ToldFigures(CrawlFigures, frozen=True, kw_only=True):
    """Figures as an execution reports them: of the whole crawl, with the part of its own task.
    Without `part`, the figures are those of its task alone."""

    part: Part | None = None
