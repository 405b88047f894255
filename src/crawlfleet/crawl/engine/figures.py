"""Collects the figures of a running crawl for people who watch it."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

import msgspec

from crawlfleet.core.crawls.figures import counted
from crawlfleet.core.urls.host_parts import host_of
from crawlfleet.crawl.engine.crawl import CrawlProgress
from crawlfleet.crawl.work import HostMeasure, Pausing
from crawlfleet.model.crawl.figures import (
    LONGEST_TEXT,
    MAX_EMPTY_FIELDS,
    MAX_HOSTS,
    MAX_RATES,
    HostReport,
    Part,
    Rate,
    ToldFigures,
)
from crawlfleet.model.crawl.frontier import HostFigures

STRETCH_S: Final = 10.0
"""Length of an interval whose pages are counted together, in seconds."""
MAX_REMEMBERED: Final = 1_000
"""Hosts whose last pause is known."""


class Teller:
    """Keeps the values for figures that `WorkFigures` no longer has."""

    def __init__(self) -> None:
        self._rates: deque[Rate] = deque(maxlen=MAX_RATES)
        self._seen: deque[tuple[float, int]] = deque()
        self._begun: tuple[float, int] | None = None
        self._pauses: dict[str, Pausing] = {}

    def remember(self, pause: Pausing) -> None:
        """Remember a pause of a host."""
        self._pauses.pop(pause.host, None)
        self._pauses[pause.host] = pause
        if len(self._pauses) > MAX_REMEMBERED:
            del self._pauses[next(iter(self._pauses))]

    def figures(
        self,
        progress: CrawlProgress,
        hosts: Sequence[HostFigures],
        *,
        is_paused: bool,
        now: float,
        is_final: bool = False,
        empty_fields: Mapping[str, str] = MappingProxyType({}),
    ) -> ToldFigures:
        """Return all figures of now; with `is_final`, the speed is that over this whole life."""
        figures, part = progress.figures, progress.part
        self._count(now, figures.pages)
        told = ToldFigures(
            at=now,
            is_paused=is_paused,
            is_final=is_final,
            rate_per_s=self._rate(),
            empty_fields=_first(empty_fields),
            hosts=self._hosts(hosts, figures.hosts, now),
            rates=tuple(self._rates),
            part=Part(pages=part.pages, items=part.items),
        )
        if is_final:
            rate = figures.pages / max(progress.elapsed_s, 0.001)
            told = msgspec.structs.replace(told, rate_per_s=round(rate, 2))
        # Where an earlier version began the crawl, nobody knows what it took until then.
        totals = progress.totals
        known = msgspec.structs.replace(totals, spent=totals.spent or figures.spent)
        return counted(told, msgspec.structs.replace(progress.counts, totals=known))

    def _count(self, now: float, pages: int) -> None:
        begun_at, before = self._begun or (now, pages)
        if self._begun is None:
            self._begun = now, pages
        elif now - begun_at >= STRETCH_S:
            self._rates.append(Rate(at=now, pages=pages - before))
            self._begun = now, pages
        self._seen.append((now, pages))
        while len(self._seen) > 2 and now - self._seen[0][0] > STRETCH_S:
            self._seen.popleft()

    def _rate(self) -> float:
        (then, before), (now, pages) = self._seen[0], self._seen[-1]
        return round((pages - before) / (now - then), 2) if now > then else 0.0

    def _hosts(
        self, books: Sequence[HostFigures], measures: Mapping[str, HostMeasure], now: float
    ) -> tuple[HostReport, ...]:
        """Return the hosts that slow the crawl down: resting ones first, then those with errors,
        then slow ones."""
        known = _whole(books)
        slowest = sorted(measures, key=lambda host: -_latency_ms(measures[host]))[:MAX_HOSTS]
        names = [*known, *(host for host in slowest if host not in known)]
        reports = [self._host(name, known.get(name), measures.get(name), now) for name in names]
        reports.sort(key=lambda r: (r.rests_until is None, -r.errors, -(r.latency_ms or 0.0)))
        return tuple(reports[:MAX_HOSTS])

    def _host(
        self, name: str, book: HostFigures | None, measure: HostMeasure | None, now: float
    ) -> HostReport:
        pause = self._pauses.get(name)
        rests = book.next_at if book is not None and book.next_at > now + 1 else None
        return HostReport(
            host=name[:LONGEST_TEXT],
            pages=book.done if book else 0,
            waiting=book.waiting + book.leased if book else 0,
            errors=measure.failures if measure else 0,
            latency_ms=round(_latency_ms(measure), 1) if measure and measure.requests else None,
            delay_s=round(pause.seconds, 2) if pause else None,
            rests_until=rests,
            why=pause.why[:LONGEST_TEXT] if pause and rests else "",
        )


def _whole(books: Sequence[HostFigures]) -> dict[str, HostFigures]:
    """The hosts of a frontier, those that are split put together again."""
    whole: dict[str, HostFigures] = {}
    for each in books:
        host = host_of(each.host)
        if (other := whole.get(host)) is not None:
            each = msgspec.structs.replace(
                each,
                waiting=each.waiting + other.waiting,
                leased=each.leased + other.leased,
                done=each.done + other.done,
                next_at=max(each.next_at, other.next_at),
            )
        whole[host] = each
    return whole


def _latency_ms(measure: HostMeasure) -> float:
    return 1000 * measure.seconds / measure.requests if measure.requests else 0.0


def _first(empty: Mapping[str, str]) -> dict[str, str]:
    """Return as many empty fields as the figures have room for."""
    some = islice(empty.items(), MAX_EMPTY_FIELDS)
    return {name[:LONGEST_TEXT]: selector[:LONGEST_TEXT] for name, selector in some}
