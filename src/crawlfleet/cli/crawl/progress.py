"""The progress of a crawl at one moment, in this process or on a fleet."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.model.crawl.figures import CrawlFigures

if TYPE_CHECKING:
    from crawlfleet.crawl.engine.crawl import CrawlProgress

SLOW_HOSTS: Final = 3


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a crawl: its counts, its slow hosts and its problems."""

    pages: int = 0
    known: int = 0
    outstanding: int = 0
    items: int = 0
    outcomes: Mapping[str, int] = {}
    slowest: tuple[tuple[str, float], ...] = ()
    """Hosts, and the mean seconds of their answers."""
    pause: str = ""
    """Host whose requests are paused, and why; empty when none is."""
    remark: str = ""
    """Message for people about the present state; empty when there is none."""


Look = Callable[[], Awaitable[Sight]]


def sight_of(progress: "CrawlProgress") -> Sight:
    """Return the progress of a crawl in this process."""
    counts, figures = progress.counts, progress.figures
    pause = ""
    if figures.pauses and time.time() <= figures.pauses[-1].until:
        pause = f"{figures.pauses[-1].host}: {figures.pauses[-1].why}"
    return Sight(
        pages=counts.pages,
        known=counts.known,
        outstanding=counts.outstanding,
        items=progress.totals.items,
        outcomes=counts.outcomes,
        slowest=tuple(figures.slowest(SLOW_HOSTS)),
        pause=pause,
    )


def sight_from_afar(figures: CrawlFigures | None, *, remark: str = "") -> Sight:
    """Return the progress of a crawl on a fleet, from the last figures of its nodes."""
    if figures is None:
        return Sight(remark=remark)
    resting = [host for host in figures.hosts if (host.rests_until or 0.0) > figures.at]
    last = max(resting, key=lambda host: host.rests_until or 0.0, default=None)
    return Sight(
        pages=figures.pages,
        known=figures.known,
        outstanding=figures.waiting + figures.in_flight,
        items=figures.items,
        outcomes=figures.outcomes,
        slowest=slowest_in(figures, SLOW_HOSTS),
        pause=f"{last.host}: {last.why}" if last else "",
        remark=remark,
    )


def slowest_in(figures: CrawlFigures, limit: int) -> tuple[tuple[str, float], ...]:
    """Return the hosts with the slowest responses, and their mean response time in seconds."""
    means = [(each.host, each.latency_ms / 1000) for each in figures.hosts if each.latency_ms]
    return tuple(sorted(means, key=lambda pair: -pair[1])[:limit])
