"""The figures of a crawl that several executions work for, out of what each tells of its part."""

from collections.abc import Sequence

import msgspec

from crawlfleet.model.figures import MOST_HOSTS, CrawlFigures, Rate
from crawlfleet.model.frontier import FrontierCounts


def together(parts: Sequence[CrawlFigures]) -> CrawlFigures | None:
    """What each has done adds up; what is true of the whole crawl is told by the newest."""
    if not parts:
        return None
    newest = max(parts, key=lambda each: each.at)
    hosts = {report.host: report for each in parts for report in each.hosts}
    ranked = sorted(hosts.values(), key=lambda each: (each.rests_until is None, -each.errors))
    return msgspec.structs.replace(
        newest,
        is_paused=all(each.is_paused or each.is_final for each in parts),
        is_final=all(each.is_final for each in parts),
        pages=sum(each.pages for each in parts),
        rate_per_s=round(sum(each.rate_per_s for each in parts if not each.is_final), 2),
        items=sum(each.items for each in parts),
        bytes=sum(each.bytes for each in parts),
        requests=sum(each.requests for each in parts),
        retries=sum(each.retries for each in parts),
        rejected=sum(each.rejected for each in parts),
        empty_fields={
            name: selector
            for name, selector in newest.empty_fields.items()
            if all(name in each.empty_fields for each in parts)
        },
        hosts=tuple(ranked[:MOST_HOSTS]),
        rates=_rates([each.rates for each in parts], newest.rates),
    )


def counted(figures: CrawlFigures, counts: FrontierCounts) -> CrawlFigures:
    """With what the frontier itself says: some that have worked for the crawl may be gone."""
    return msgspec.structs.replace(
        figures,
        pages=counts.pages,
        known=counts.known,
        waiting=counts.waiting,
        in_flight=counts.leased,
        done=counts.done,
        outcomes=dict(counts.outcomes),
    )


def _rates(parts: Sequence[Sequence[Rate]], newest: Sequence[Rate]) -> tuple[Rate, ...]:
    """The stretches of the newest, each with what the others had at that time or so."""
    return tuple(
        Rate(
            at=stretch.at,
            pages=sum(part[-number].pages for part in parts if len(part) >= number),
        )
        for number, stretch in zip(range(len(newest), 0, -1), newest, strict=True)
    )
