"""Figures of an attempt, read from its metrics, as far as expectations use them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crawlfleet.core.quality.profile import Fold
from crawlfleet.model.quality import Expectations, Profile

CRAWLERS: Final = frozenset({"web_crawl", "scrapy_spider"})
"""Task types whose results do not contain the items that the master stores."""
GREATEST: Final = 1e15
"""Upper bound of a count: no task fetches more, and numbers below it are exact."""
_PAGES: Final = ("pages_crawled", "fetched")
_FAILED: Final = ("failed", "errors")
ELSEWHERE: Final = (
    "the items are not in the master's storage; add `fleet:items` to the `sinks` of the crawl"
)


def pages_in(metrics: Mapping[str, float]) -> int | None:
    """Return the number of fetched pages; `None` if the metrics do not have it."""
    found = _figure(metrics, _PAGES)
    return None if found is None else int(found)


def errors_in(metrics: Mapping[str, float]) -> float | None:
    """Return the share of failed requests; `None` if the metrics do not have it."""
    pages = pages_in(metrics)
    failed = _figure(metrics, _FAILED)
    if pages is None or failed is None or failed < 0 or pages < 0:
        return None
    return failed / (pages + failed) if pages + failed else 0.0


def _figure(metrics: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Return the first of the metrics that exists; `None` for an impossible value, since metrics
    come from nodes."""
    found = next((metrics[name] for name in names if name in metrics), None)
    return found if found is not None and abs(found) <= GREATEST else None


def holds_items(task_type: str, data: Any) -> bool:
    """Return whether the items of a task without stored output are in its result."""
    if task_type != "web_crawl":
        return task_type not in CRAWLERS
    return isinstance(data, dict) and all(isinstance(each, list) for each in data.values())


def unseen(expected: Expectations, metrics: Mapping[str, float]) -> Profile:
    """Return the profile of items that were written elsewhere; their number may still be known."""
    count = _figure(metrics, ("items",))
    pages, errors = pages_in(metrics), errors_in(metrics)
    if count == 0:
        return Fold(expected).profile(pages=pages, errors=errors)
    items = None if count is None or expected.kind is not None else int(count)
    return Profile(items=items, pages=pages, errors=errors, trouble=ELSEWHERE)
