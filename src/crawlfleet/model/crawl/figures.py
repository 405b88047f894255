"""A running crawl in numbers: what its executor tells every second or two."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

MOST_HOSTS: Final = 50
MOST_RATES: Final = 60
MOST_DEPTHS: Final = 200
MOST_CLASSES: Final = 100
MOST_EMPTY_FIELDS: Final = 20
LONGEST_TEXT: Final = 300


class HostReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host of a crawl."""

    host: Annotated[str, Meta(max_length=LONGEST_TEXT)]
    pages: int = 0
    """Finished with, whatever the outcome."""
    waiting: int = 0
    errors: int = 0
    latency_ms: float | None = None
    """Of an answer, on average."""
    delay_s: float | None = None
    """For how long it was left alone the last time."""
    rests_until: float | None = None
    """It is left alone until then."""
    why: Annotated[str, Meta(max_length=LONGEST_TEXT)] = ""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How many pages a stretch of time brought; `at` is its end."""

    at: float
    pages: int


class CrawlFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How far a crawl has got."""

    at: float = 0.0
    """By the node's clock, in seconds since 1970, as are all instants here."""
    is_paused: bool = False
    is_final: bool = False
    """Whether the crawl is over."""
    pages: int = 0
    """As was committed over all attempts, as is all here but `rate_per_s`, `hosts` and `rates`."""
    rate_per_s: float = 0.0
    """Over the last ten seconds or so."""
    items: int = 0
    """In the output."""
    bytes: int = 0
    """That came over the wire."""
    requests: int = 0
    """All that it took: redirects, robots.txt and further tries, too; never fewer than `pages`."""
    retries: int = 0
    """Visits that ended with the URL being put back, to be visited again."""
    known: int = 0
    """URLs that belong to the crawl: `waiting`, `in_flight` and `done` together."""
    waiting: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    """Those of `done` that gave an error instead of a page."""
    rejected: int = 0
    """Links that do not belong to the crawl, each time that one was met."""
    outcomes: Annotated[dict[str, int], Meta(max_length=MOST_CLASSES)] = {}
    depths: Annotated[tuple[int, ...], Meta(max_length=MOST_DEPTHS)] = ()
    """Known URLs by their distance from a seed."""
    empty_fields: Annotated[dict[str, str], Meta(max_length=MOST_EMPTY_FIELDS)] = {}
    """Selectors that have caught nothing on many pages, by their fields; in the end, on any."""
    hosts: Annotated[tuple[HostReport, ...], Meta(max_length=MOST_HOSTS)] = ()
    """The most blocked and the slowest first, at most 50."""
    rates: Annotated[tuple[Rate, ...], Meta(max_length=MOST_RATES)] = ()
    """The last minutes, in stretches of ten seconds."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What of a crawl was done for one of the tasks that share it, over all attempts at that."""

    pages: int = 0
    items: int = 0


class ToldFigures(CrawlFigures, frozen=True, kw_only=True):
    """What an execution tells: the figures of the whole crawl, and which part is that of its task.
    Without the part, the figures are those of its task alone."""

    part: Part | None = None
