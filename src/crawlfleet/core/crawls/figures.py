"""Figures of a crawl: combines the counts of its frontier with the reports of its executions.

Committed amounts are never summed up from the reports: each execution reports what the frontier
last told it about the whole crawl, and one that was killed has reported pages that were never
committed, or fewer than were. Only momentary values are combined here: speed, hosts, whether the
crawl is paused.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeVar

import msgspec

from crawlfleet.model.crawl.figures import (
    MAX_DEPTHS,
    MAX_HOSTS,
    CrawlFigures,
    Part,
    Rate,
    ToldFigures,
)
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.crawl.parameters import ERRORS

AnyFigures = TypeVar("AnyFigures", bound=CrawlFigures)


def together(parts: Sequence[ToldFigures]) -> CrawlFigures | None:
    """Return the figures of a crawl from the last report of each of its tasks, based on the report
    that has seen most of the crawl; `None` without reports."""
    if not parts:
        return None
    if len(parts) == 1:
        return _plain(parts[0])
    living = [each for each in parts if not each.is_final] or parts
    whole = max(parts, key=lambda each: (each.part is not None, each.done, each.requests, each.at))
    newest = max(parts, key=lambda each: each.at)
    hosts = {report.host: report for each in parts for report in each.hosts}
    ranked = sorted(hosts.values(), key=lambda each: (each.rests_until is None, -each.errors))
    return msgspec.structs.replace(
        _plain(whole if whole.part is not None else _added_up(parts, newest)),
        at=newest.at,
        is_paused=all(each.is_paused for each in living),
        is_final=all(each.is_final for each in parts),
        rate_per_s=round(sum(each.rate_per_s for each in living), 2),
        empty_fields={
            name: selector
            for name, selector in newest.empty_fields.items()
            if all(name in each.empty_fields for each in parts)
        },
        hosts=tuple(ranked[:MAX_HOSTS]),
        rates=_rates([each.rates for each in parts]),
    )


def part_of(told: ToldFigures) -> Part:
    """Return the part of a crawl that was done for one task."""
    return told.part or Part(pages=told.pages, items=told.items)


def counted(figures: AnyFigures, counts: FrontierCounts) -> AnyFigures:
    """Return the figures updated with the counts of the frontier, unless the counts are older."""
    if _reach(counts) < (figures.done, figures.requests):
        return figures
    figures = msgspec.structs.replace(
        figures,
        pages=counts.pages,
        known=counts.known,
        waiting=counts.waiting,
        in_flight=counts.leased,
        done=counts.done,
        failed=failed_in(counts.outcomes),
        outcomes=dict(counts.outcomes),
        depths=depths_in(counts.depths),
    )
    if (totals := counts.totals) is None:
        return figures
    figures = msgspec.structs.replace(figures, items=totals.items)
    if (spent := totals.spent) is None:
        return figures
    return msgspec.structs.replace(
        figures,
        requests=spent.requests,
        bytes=spent.bytes,
        retries=spent.retries,
        rejected=sum(spent.rejected.values()),
    )


def failed_in(outcomes: Mapping[str, int]) -> int:
    """Return the number of URLs that gave an error instead of a page."""
    return sum(number for outcome, number in outcomes.items() if outcome in ERRORS)


def depths_in(depths: Mapping[int, int]) -> tuple[int, ...]:
    """Return the number of URLs at each depth, for the first `MAX_DEPTHS` depths."""
    deepest = min(max(depths, default=-1), MAX_DEPTHS - 1)
    return tuple(depths.get(depth, 0) for depth in range(deepest + 1))


def _reach(counts: FrontierCounts) -> tuple[float, float]:
    """Return how far a crawl had come, as (URLs done, requests); infinite requests if not
    recorded."""
    spent = None if counts.totals is None else counts.totals.spent
    return counts.done, inf if spent is None else spent.requests


def _plain(told: CrawlFigures) -> CrawlFigures:
    names = (field.name for field in msgspec.structs.fields(CrawlFigures))
    return CrawlFigures(**{name: getattr(told, name) for name in names})


def _added_up(parts: Sequence[ToldFigures], newest: ToldFigures) -> CrawlFigures:
    """Add up the figures of workers that report only their own part: spiders, and nodes of earlier
    versions."""
    return msgspec.structs.replace(
        newest,
        pages=sum(each.pages for each in parts),
        items=sum(each.items for each in parts),
        bytes=sum(each.bytes for each in parts),
        requests=sum(each.requests for each in parts),
        retries=sum(each.retries for each in parts),
        rejected=sum(each.rejected for each in parts),
    )


def _rates(parts: Sequence[Sequence[Rate]]) -> tuple[Rate, ...]:
    """Return the rates of the longest report, each increased by the rates of the others at about
    that time."""
    longest = max(parts, key=len)
    return tuple(
        Rate(
            at=stretch.at,
            pages=sum(part[-number].pages for part in parts if len(part) >= number),
        )
        for number, stretch in zip(range(len(longest), 0, -1), longest, strict=True)
    )
